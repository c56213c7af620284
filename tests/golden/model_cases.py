"""The cases made by transformers: tiny random models with awkward sizes, one row each."""
from dataclasses import dataclass, field
from typing import Callable

import transformers

import checkpoint_edits as edits


@dataclass
class ModelCase:
    name: str
    model: str  # class in transformers
    config: dict
    lengths: tuple = (1, 6, 11)
    dtype: str = "float32"  # of the stored tensors
    shard: str = "1GB"  # max_shard_size
    edit_config: Callable | None = None  # dict -> dict, before the reference reads the directory
    edit_tensors: list = field(default_factory=list)  # dict -> dict, after it
    padded: bool = False  # one more input with hidden keys (and token types where the family has them)

    def make_config(self):
        return transformers.AutoConfig.for_model(self.model_type, **self.config)

    @property
    def model_type(self) -> str:
        return getattr(transformers, self.model).config_class.model_type


BERT = dict(
    vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
    max_position_embeddings=11, type_vocab_size=2,
)  # fmt: skip
ALBERT = dict(
    vocab_size=41, embedding_size=10, hidden_size=15, num_hidden_layers=5, num_hidden_groups=2, num_attention_heads=3,
    intermediate_size=26, max_position_embeddings=11,
)  # fmt: skip
GPT2 = dict(vocab_size=43, n_embd=15, n_layer=2, n_head=3, n_positions=12)
LLAMA = dict(
    vocab_size=39, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
    intermediate_size=22, max_position_embeddings=17, rms_norm_eps=1e-5, attention_bias=True, mlp_bias=True,
    tie_word_embeddings=False,
)  # fmt: skip
SMALL_LLAMA = LLAMA | dict(num_attention_heads=4, hidden_size=12, intermediate_size=11, attention_bias=False,
                           mlp_bias=False, tie_word_embeddings=True)  # fmt: skip

CASES = [
    ModelCase("bert", "BertForMaskedLM", BERT, edit_tensors=[edits.add_bert_extras], padded=True),
    ModelCase("bert-headless", "BertModel", BERT | dict(hidden_size=20, num_attention_heads=4),
              lengths=(1, 5, 11), edit_tensors=[edits.old_norm_names]),
    ModelCase("albert", "AlbertForMaskedLM", ALBERT, lengths=(1, 6, 11), padded=True),
    ModelCase("albert-headless", "AlbertModel", ALBERT | dict(num_hidden_layers=3, hidden_size=12), lengths=(2, 11)),
    ModelCase("gpt2", "GPT2LMHeadModel", GPT2, lengths=(1, 6, 12), padded=True),
    ModelCase("llama", "LlamaForCausalLM", LLAMA, lengths=(1, 7, 17), padded=True),
]
