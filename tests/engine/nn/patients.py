"""Tiny random BLOOMs on the disk, with a byte-level tokenizer, for tests that need real weights."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import BloomConfig, BloomForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
LAYERS, HEADS, WIDTH = 3, 4, 32


def tokenizer(bos: bool = True, context: int = 64) -> PreTrainedTokenizerFast:
    """A word per byte: every text of n ASCII letters has n tokens, and ``<s>`` before them."""
    alphabet = SPECIAL + sorted(pre_tokenizers.ByteLevel.alphabet())
    fast = Tokenizer(models.BPE({word: i for i, word in enumerate(alphabet)}, []))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    if bos:
        fast.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=fast,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        model_max_length=context,
    )


def make_patient(folder: Path, dtype: torch.dtype = torch.float32, seed: int = 0, bos: bool = True) -> Path:
    """Save a random BLOOM of 3 layers × 4 heads, 32 wide, into ``folder``."""
    torch.manual_seed(seed)
    config = BloomConfig(
        vocab_size=260, hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS, initializer_range=0.2, use_cache=False
    )
    model = BloomForCausalLM(config).to(dtype)
    with torch.no_grad():  # biases start at zero; trained models have others
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.1)
    model.save_pretrained(folder)
    tokenizer(bos).save_pretrained(folder)
    return folder


def write_corpus(path: Path, paragraphs: int = 60) -> Path:
    """A text file of paragraphs that all differ."""
    lines = [f"Paragraph {i} tells of {i * i} birds and {i * 7 % 13} trees by the river." for i in range(paragraphs)]
    path.write_text("\n\n".join(lines) + "\n", "utf-8")
    return path
