"""Cases of decoders whose blocks differ from llama's in more than names, one or two rows each."""
from model_case import ModelCase
from old_layouts import renamed, rewritten

GPT_NEO = dict(vocab_size=37, hidden_size=18, num_layers=3, num_heads=3, intermediate_size=22, window_size=4,
               max_position_embeddings=13, attention_types=[[["global", "local"], 1], [["local"], 1]])  # fmt: skip
GPTJ = dict(vocab_size=39, n_embd=30, n_layer=2, n_head=3, n_inner=23, rotary_dim=6, n_positions=13)
CODEGEN = dict(vocab_size=39, n_embd=32, n_layer=2, n_head=4, n_inner=21, rotary_dim=6, n_positions=13)
GPT_NEOX = dict(vocab_size=37, hidden_size=30, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17,
                max_position_embeddings=13)  # fmt: skip
OPT = dict(vocab_size=37, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, ffn_dim=22,
           max_position_embeddings=13, word_embed_proj_dim=15)  # fmt: skip
OPT_350M = OPT | dict(do_layer_norm_before=False, word_embed_proj_dim=9, hidden_size=18)
BLOOM = dict(vocab_size=37, hidden_size=15, n_layer=2, n_head=5)
FALCON = dict(vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, max_position_embeddings=13)
FALCON_7B = FALCON | dict(num_attention_heads=3, multi_query=True, parallel_attn=True)
FALCON_40B = FALCON | dict(num_kv_heads=2, new_decoder_architecture=True)
FALCON_RW = FALCON | dict(hidden_size=20, num_attention_heads=5, alibi=True, multi_query=False, parallel_attn=False,
                          bias=True)  # fmt: skip
FALCON_11B = FALCON | dict(num_kv_heads=3, new_decoder_architecture=True, num_ln_in_parallel_attn=1,
                           ffn_hidden_size=21)  # fmt: skip
GPT_BIGCODE = dict(vocab_size=37, n_embd=15, n_layer=2, n_head=3, n_inner=22, n_positions=13)
MPT = dict(vocab_size=37, d_model=15, n_layers=2, n_heads=5, max_seq_len=13)
PHI = dict(vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17,
           max_position_embeddings=13)  # fmt: skip
STABLELM = dict(vocab_size=37, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
                intermediate_size=17, max_position_embeddings=13)  # fmt: skip
COHERE = dict(vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
              intermediate_size=17, max_position_embeddings=13, logit_scale=0.3)  # fmt: skip
NEMOTRON = dict(vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                head_dim=8, intermediate_size=17, max_position_embeddings=13)  # fmt: skip
STARCODER2 = dict(vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                  intermediate_size=17, max_position_embeddings=13)  # fmt: skip


def two(name: str, model: str, new: dict, old: dict, model_type: str | None = None) -> list[ModelCase]:
    """Returns a case as transformers 5 saves it, and the same case in the old layout."""
    cases = [
        ModelCase(name, model, new, lengths=(1, 9), padded=True, dtype="float16"),
        ModelCase(f"{name}-old", model, old, lengths=(3, 11), dtype="float16"),
    ]
    for key, value in rewritten(model_type or cases[1].model_type).items():
        setattr(cases[1], key, value)
    return cases


CASES = [
    *two("gpt_neox", "GPTNeoXForCausalLM",
         GPT_NEOX | dict(rope_parameters=dict(rope_type="default", rope_theta=300.0, partial_rotary_factor=0.4)),
         GPT_NEOX | dict(use_parallel_residual=False)),
    *two("gptj", "GPTJForCausalLM", GPTJ, GPTJ | dict(n_inner=None, n_head=5, rotary_dim=4)),
    *two("codegen", "CodeGenForCausalLM", CODEGEN, CODEGEN | dict(n_head=8, rotary_dim=4, n_inner=None)),
    *two("gpt_neo", "GPTNeoForCausalLM", GPT_NEO,
         GPT_NEO | dict(intermediate_size=None, num_layers=2, attention_types=[[["global", "local"], 1]])),
    *two("opt", "OPTForCausalLM", OPT, OPT | dict(activation_function="gelu")),
    *two("opt-350m", "OPTForCausalLM", OPT_350M, OPT_350M),
    ModelCase("opt-headless", "OPTModel", OPT | dict(enable_bias=False, layer_norm_elementwise_affine=False),
              lengths=(6,), dtype="float16"),
    *two("bloom", "BloomForCausalLM", BLOOM,
         BLOOM | dict(n_head=3, apply_residual_connection_post_layernorm=True)),
    *two("falcon", "FalconForCausalLM", FALCON_7B, FALCON_7B | dict(bias=True)),
    *two("falcon-new", "FalconForCausalLM", FALCON_40B, FALCON_40B | dict(num_kv_heads=3)),
    *two("falcon-alibi", "FalconForCausalLM", FALCON_RW, FALCON_RW | dict(num_attention_heads=3, hidden_size=18)),
    ModelCase("falcon-one-norm", "FalconForCausalLM", FALCON_11B, lengths=(1, 9), dtype="float16"),
    ModelCase("falcon-sequential", "FalconForCausalLM", FALCON_7B | dict(parallel_attn=False, activation="relu"),
              lengths=(1, 9), dtype="float16"),
    *two("gpt_bigcode", "GPTBigCodeForCausalLM", GPT_BIGCODE, GPT_BIGCODE | dict(n_inner=None, n_head=5)),
    ModelCase("gpt_bigcode-multi-head", "GPTBigCodeForCausalLM", GPT_BIGCODE | dict(multi_query=False), lengths=(1, 9),
              dtype="float16"),
    *two("mpt", "MptForCausalLM", MPT, MPT | dict(n_heads=3, attn_config=dict(clip_qkv=1.5, softmax_scale=0.6))),
    *two("phi", "PhiForCausalLM", PHI, PHI | dict(num_key_value_heads=1)),
    ModelCase("phi-qk-norm", "PhiForCausalLM", PHI | dict(qk_layernorm=True), lengths=(1, 9), dtype="float16"),
    *two("stablelm", "StableLmForCausalLM", STABLELM | dict(use_qkv_bias=True, qk_layernorm=True),
         STABLELM | dict(use_parallel_residual=True, num_key_value_heads=5)),
    *two("cohere", "CohereForCausalLM", COHERE | dict(use_qk_norm=True), COHERE | dict(num_attention_heads=3,
                                                                                      num_key_value_heads=1)),
    *two("nemotron", "NemotronForCausalLM", NEMOTRON | dict(attention_bias=True, mlp_bias=True), NEMOTRON),
    *two("starcoder2", "Starcoder2ForCausalLM", STARCODER2 | dict(sliding_window=4), STARCODER2 | dict(use_bias=False)),
]  # fmt: skip
for case in CASES:  # these count positions of visible tokens only; hidden tokens have separate cases
    case.padded &= case.name not in ("opt", "opt-350m", "bloom", "falcon-alibi")
CASES += [
    ModelCase("opt-padding", "OPTForCausalLM", OPT, lengths=(2, 7), dtype="float16", padded=True),
    ModelCase("gpt_neox-native", "GPTNeoXForCausalLM", GPT_NEOX, lengths=(5,), dtype="float16",
              edit_tensors=[renamed(("embed_out.", "lm_head."))]),
    ModelCase("bloom-padding", "BloomForCausalLM", BLOOM, lengths=(2, 7), dtype="float16", padded=True),
]
