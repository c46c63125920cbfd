"""Tiny causal models with random weights, made on the spot: what they write is noise, but exact noise."""

import threading

from focusctx.drafts import TransformersDraft

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE


def tokenizer(template):
    """One token per byte, and one for the end."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="<end>")
    made.chat_template = template
    return made


def save(path, kind="full", template=TEMPLATE, end=256, room=256):
    """A model in a folder: `end` names the tokens that end a reply; with many of them replies differ in length.

    With None, replies do not end before their limit.
    """
    model = tiny(kind, end, room)
    if end is None:
        model.lm_head.weight.data[256] = 0  # never likely enough to be drawn
    model.save_pretrained(path)
    tokenizer(template).save_pretrained(path)
    return path


def tiny(kind, end, room):
    import torch
    import transformers

    shape = {
        "vocab_size": 257,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": room,
        "tie_word_embeddings": False,
        "initializer_range": 0.5,  # far from uniform: a wrong cache shows in the very next token
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": None,
    }
    torch.manual_seed(0)
    if kind == "sliding":
        windows = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
        return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**shape, **windows))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape))


class Watched:
    """A draft whose model is loaded and records the shape of each batch that goes through it."""

    def __init__(self, path, **options):
        self.draft = TransformersDraft(path, device="cpu", **options)
        self.shapes = []
        loaded = self.draft.submit(lambda model, _: model, threading.Event()).result()
        self.model, self.tokenizer = loaded.model, loaded.tokenizer
        self.model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, _, __, named):
        self.shapes.append(tuple(named["input_ids"].shape))
