"""Names of drafts in records."""

from focusctx.replay.methods import short_name


def test_a_local_model_is_named_without_its_folder() -> None:
    assert short_name("transformers:/home/me/model.gguf") == "transformers:model.gguf"
    assert short_name("llama-cpp:models\\model.gguf?grammar=1") == "llama-cpp:model.gguf?grammar=1"
    assert short_name("likelihood:transformers:/home/me/model.gguf") == "likelihood:transformers:model.gguf"
    assert short_name("transformers:model?template=a/b") == "transformers:model?template=a/b"
    assert short_name("openai:gpt-4.1-mini") == "openai:gpt-4.1-mini"
    assert short_name("openrouter:qwen/qwen3") == "openrouter:qwen/qwen3"
