"""A chat model of a few thousand weights, with a tokenizer of its own."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast as Fast

TEMPLATE = """\
{% for message in messages %}<|turn|>{{ message.role }}:{{ message.content }}<|end|>{% endfor %}\
{% if add_generation_prompt %}<|turn|>assistant:{% endif %}"""


def build(folder: Path, template: str | None = TEMPLATE, hidden: int = 32) -> Path:
    """A tiny random Llama that reads bytes; its vocabulary is padded beyond the tokenizer's."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = Fast(tokenizer_object=tokenizer, eos_token="<|end|>", additional_special_tokens=["<|turn|>"])
    fast.chat_template = template
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=272, hidden_size=hidden, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=256, initializer_range=0.3, bos_token_id=None,
            eos_token_id=fast.eos_token_id,
        )
    )  # fmt: skip
    # What a model brings of its own must not mix with the request's sampling.
    model.generation_config.update(do_sample=True, top_k=1, repetition_penalty=1.8)
    model.save_pretrained(folder)
    return folder
