"""The real `llmlingua` package, with tiny random classifiers made here: which words stay is noise, but exact noise."""

from pathlib import Path
from typing import Any

import pytest

from focusctx.errors import ConfigError
from focusctx.tokens import Counter
from focusctx_bench.baselines.summary import HEADING, LLMLingua, LLMLingua2
from helpers.histories import run, step

torch = pytest.importorskip("torch", reason="needs the extra `llmlingua`")
transformers = pytest.importorskip("transformers", reason="needs the extra `llmlingua`")
pytest.importorskip("llmlingua", reason="needs the extra `llmlingua`")
pytestmark = pytest.mark.extra

TEXT = "Step 7. Thought: look up the order 4711.\nObservation: id 4711, total 12.5, sent on Monday\n" * 60
LETTERS = "".join(map(chr, range(33, 127)))
SHAPE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "num_labels": 2}


def xlm_roberta(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokens = Tokenizer(models.Unigram())
    tokens.pre_tokenizer, tokens.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokens.train_from_iterator([TEXT, " ".join(LETTERS)], trainer)
    names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    others = {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **names, **others)
    config = transformers.XLMRobertaConfig(
        vocab_size=len(fast), max_position_embeddings=514, pad_token_id=1, bos_token_id=0, eos_token_id=2, **SHAPE
    )
    save(folder, fast, transformers.XLMRobertaForTokenClassification(config))


def bert(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokens = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokens.pre_tokenizer, tokens.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokens.train_from_iterator([TEXT, " ".join(LETTERS)], trainer)
    names = {f"{name.strip('[]').lower()}_token": name for name in special}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **names)
    config = transformers.BertConfig(vocab_size=len(fast), max_position_embeddings=512, **SHAPE)
    save(folder, fast, transformers.BertForTokenClassification(config))


def save(folder: Path, tokenizer: Any, model: Any) -> None:
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


MAKERS = {"tiny-xlm-roberta-large": xlm_roberta, "tiny-bert-base-multilingual-cased": bert}


@pytest.fixture(params=MAKERS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    family: str = request.param
    MAKERS[family](tmp_path / family)
    return tmp_path / family


def test_some_of_the_words_stay_in_their_order(folder: Path) -> None:
    shorten = LLMLingua2(str(folder), rate=0.3)
    short = shorten(TEXT)
    count = Counter().count
    assert 0.1 < count(short) / count(TEXT) < 0.5
    rest = iter(TEXT)
    assert all(letter in rest for letter in short if not letter.isspace())
    assert short == shorten(TEXT) == LLMLingua2(str(folder), rate=0.3)(TEXT)
    assert count(LLMLingua2(str(folder), rate=0.7)(TEXT)) > count(short)


def test_nothing_is_downloaded_and_special_tokens_are_words(folder: Path) -> None:
    assert isinstance(LLMLingua2(str(folder))(f"<|endoftext|> {TEXT}"), str)  # sockets are off in tests


async def test_as_a_method(folder: Path) -> None:
    messages = run(0) + [message for number in range(6) for message in step(number, TEXT[:400])]
    compressed = await LLMLingua(LLMLingua2(str(folder)), budget=400).compress(messages)
    assert compressed.happened
    assert compressed.failure is None
    made = compressed.messages[2]
    assert [*messages[:2], made, *messages[-2:]] == compressed.messages
    assert made["content"].startswith(HEADING)
    count = Counter().count
    assert count(made["content"]) < 0.6 * sum(count(message["content"]) for message in messages[2:-2])


async def test_a_text_the_package_can_do_nothing_with_leaves_the_history_as_it_is(folder: Path) -> None:
    real = LLMLingua2(str(folder))
    compressed = await LLMLingua(lambda _: real(" "), budget=0).compress(
        run(3)
    )  # an IndexError of its own, or no words
    assert compressed.messages == run(3)
    assert compressed.failure is not None


async def test_a_model_that_is_not_there_is_no_passing_failure(tmp_path: Path) -> None:
    method = LLMLingua(LLMLingua2(str(tmp_path / "xlm-roberta-large")), budget=0)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        await method.compress(run(4))
