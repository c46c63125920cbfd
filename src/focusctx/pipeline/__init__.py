"""The steps of one event, one file each: split → budget → draft → cite → score → keep → rebuild."""
