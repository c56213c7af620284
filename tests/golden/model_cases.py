"""The cases made by transformers: tiny random models with awkward sizes, one row each."""
import block_cases
import checkpoint_edits as edits
import decoder_cases
import encoder_cases
import image_cases
import seq2seq_cases
from model_case import ModelCase

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
ROBERTA = dict(
    vocab_size=37, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, intermediate_size=22,
    max_position_embeddings=14, type_vocab_size=1, layer_norm_eps=1e-5,
)  # fmt: skip
ELECTRA = dict(
    vocab_size=35, embedding_size=10, hidden_size=21, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17,
    max_position_embeddings=11,
)  # fmt: skip
DISTILBERT = dict(
    vocab_size=33, dim=15, n_layers=2, n_heads=3, hidden_dim=23, max_position_embeddings=11, activation="relu",
)  # fmt: skip
MISTRAL = dict(
    vocab_size=39, hidden_size=21, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=4,
    intermediate_size=17, max_position_embeddings=13, sliding_window=4,
)  # fmt: skip
QWEN2 = dict(
    vocab_size=37, hidden_size=18, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1,
    intermediate_size=17, max_position_embeddings=13, use_sliding_window=True, sliding_window=3, max_window_layers=1,
)  # fmt: skip
QWEN3 = dict(
    vocab_size=37, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, head_dim=6,
    intermediate_size=17, max_position_embeddings=13,
)  # fmt: skip
# Rotary variants differ only in their rotary keys. With 17 positions, a wrong frequency is clearly visible.
ROTARY = LLAMA | dict(num_attention_heads=4, hidden_size=12, intermediate_size=11, attention_bias=False,
                      mlp_bias=False, tie_word_embeddings=True, num_hidden_layers=1)  # fmt: skip


def rotary_case(name: str, rope: dict, lengths=(17,), config=None, **options) -> ModelCase:
    config = ROTARY | {"rope_parameters": rope} | (config or {})
    return ModelCase(f"llama-{name}", "LlamaForCausalLM", config, lengths, **options)


LLAMA3 = dict(rope_type="llama3", rope_theta=1000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)  # fmt: skip
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=256)
LONGROPE = dict(rope_type="longrope", rope_theta=1000.0, original_max_position_embeddings=8,
                short_factor=[1.0, 1.1, 1.3, 1.2, 1.5], long_factor=[1.2, 2.5, 3.0, 4.5, 7.0])  # fmt: skip

BASIC_CASES = [
    ModelCase("bert", "BertForMaskedLM", BERT, edit_tensors=[edits.add_bert_extras], padded=True),
    ModelCase("bert-headless", "BertModel", BERT | dict(hidden_size=20, num_attention_heads=4, hidden_act="gelu_new"),
              lengths=(1, 5, 11), edit_tensors=[edits.old_norm_names]),
    ModelCase("albert", "AlbertForMaskedLM", ALBERT, lengths=(1, 6, 11), padded=True),
    ModelCase("albert-headless", "AlbertModel", ALBERT | dict(num_hidden_layers=3, hidden_size=12, hidden_act="relu"),
              lengths=(2, 11)),
    ModelCase("gpt2", "GPT2LMHeadModel", GPT2, lengths=(1, 6, 12), padded=True),
    ModelCase("gpt2-inverse-layer", "GPT2LMHeadModel",
              GPT2 | dict(scale_attn_by_inverse_layer_idx=True, n_inner=23, n_embd=12, n_layer=3), lengths=(12,),
              edit_tensors=[edits.without_prefix("transformer."), edits.add_causal_buffers]),
    ModelCase("gpt2-unscaled", "GPT2LMHeadModel",
              GPT2 | dict(scale_attn_weights=False, n_embd=6, n_layer=1, activation_function="relu"), lengths=(12,)),
    ModelCase("roberta", "RobertaForMaskedLM", ROBERTA | dict(pad_token_id=2, type_vocab_size=2), lengths=(1, 7, 11),
              padded=True, pad_tokens=(2, 4, -1)),
    ModelCase("roberta-old", "RobertaForMaskedLM", ROBERTA | dict(hidden_act="gelu_new"), lengths=(5, 10),
              edit_config=edits.old_roberta, edit_tensors=[edits.add_roberta_extras, edits.old_norm_names],
              padded=True, pad_tokens=(0, -1)),
    ModelCase("xlm-roberta", "XLMRobertaForMaskedLM", ROBERTA | dict(pad_token_id=0), lengths=(1, 6), padded=True,
              pad_tokens=(3,)),
    ModelCase("xlm-roberta-headless", "XLMRobertaModel", ROBERTA, lengths=(6,), dtype="float16"),
    ModelCase("electra", "ElectraForMaskedLM", ELECTRA | dict(hidden_act="relu"), lengths=(1, 6, 11), padded=True),
    ModelCase("electra-discriminator", "ElectraForPreTraining", ELECTRA | dict(embedding_size=21), lengths=(6,),
              edit_tensors=[edits.old_norm_names], read_as="ElectraModel"),
    ModelCase("distilbert", "DistilBertForMaskedLM", DISTILBERT, lengths=(1, 6, 11), padded=True),
    ModelCase("distilbert-headless", "DistilBertModel", DISTILBERT | dict(sinusoidal_pos_embds=True, activation="gelu"),
              lengths=(7,), edit_config=edits.long_names, edit_tensors=[edits.old_norm_names]),
    ModelCase("mistral", "MistralForCausalLM", MISTRAL, lengths=(1, 4, 13), padded=True),
    ModelCase("mistral-full", "MistralForCausalLM", MISTRAL | dict(sliding_window=None), lengths=(9,),
              edit_config=edits.flat_theta, edit_tensors=[edits.without_prefix("model.")], dtype="float16"),
    ModelCase("qwen2", "Qwen2ForCausalLM", QWEN2, lengths=(1, 9), padded=True),
    ModelCase("qwen2-old", "Qwen2ForCausalLM", QWEN2 | dict(tie_word_embeddings=True, num_hidden_layers=2), lengths=(7,),
              edit_config=edits.flat_theta, dtype="bfloat16"),
    ModelCase("qwen3", "Qwen3ForCausalLM",
              QWEN3 | dict(use_sliding_window=True, sliding_window=3,
                           layer_types=["sliding_attention", "full_attention"]), lengths=(1, 9), padded=True),
    ModelCase("qwen3-old", "Qwen3ForCausalLM", QWEN3 | dict(attention_bias=True, num_key_value_heads=1), lengths=(7,),
              edit_config=edits.flat_theta),
    ModelCase("llama", "LlamaForCausalLM", LLAMA, lengths=(1, 7, 17), padded=True),
    ModelCase("llama-old", "LlamaForCausalLM",
              ROTARY | dict(head_dim=None, num_key_value_heads=None, num_attention_heads=2, hidden_size=20),
              lengths=(17,), edit_config=edits.earliest_llama, edit_tensors=[edits.add_inverse_frequencies]),
    rotary_case("theta", dict(rope_type="default", rope_theta=333.0), edit_config=edits.stale_theta),
    rotary_case("linear", dict(rope_type="linear", rope_theta=1000.0, factor=2.5)),
    rotary_case("linear-flat", dict(rope_type="linear", rope_theta=1000.0, factor=2.5), edit_config=edits.flat_rotary),
    rotary_case("llama3", LLAMA3),
    rotary_case("llama3-flat", LLAMA3, edit_config=edits.flat_rotary),
    rotary_case("yarn", YARN | dict(truncate=False, beta_fast=16.0, attention_factor=1.3)),
    rotary_case("yarn-flat", YARN, edit_config=edits.flat_rotary),
    rotary_case("longrope", LONGROPE, lengths=(8, 9, 17), config=dict(max_position_embeddings=32)),
    rotary_case("f16", dict(rope_type="default", rope_theta=10000.0), dtype="float16", lengths=(11,),
                edit_tensors=[edits.add_own_head], config=dict(hidden_act="gelu_pytorch_tanh")),
    ModelCase("llama-bf16-headless", "LlamaModel", ROTARY, lengths=(11,), dtype="bfloat16",
              read_as="LlamaForCausalLM"),
    ModelCase("llama-sharded", "LlamaForCausalLM", ROTARY | dict(num_hidden_layers=2), lengths=(11,), shard="6KB"),
]

CASES = BASIC_CASES
for more in (decoder_cases, block_cases, encoder_cases, seq2seq_cases, image_cases):
    CASES = CASES + more.CASES
