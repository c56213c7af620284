"""Cases of families close to llama: other norms, scales, windows, rotations and experts in the same block."""
from decoder_cases import two
from model_case import ModelCase
from old_layouts import mxfp4_config, mxfp4_experts, old_longrope, packed_experts

LLAMA = dict(vocab_size=37, hidden_size=18, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
             intermediate_size=17, max_position_embeddings=13, rms_norm_eps=1e-5)  # fmt: skip
GEMMA = LLAMA | dict(head_dim=8)
GEMMA2 = LLAMA | dict(head_dim=8, query_pre_attn_scalar=11, sliding_window=4, attn_logit_softcapping=1.5,
                      final_logit_softcapping=2.5)  # fmt: skip
GEMMA3 = LLAMA | dict(head_dim=8, query_pre_attn_scalar=11, sliding_window=4, num_hidden_layers=3)
PHI3 = LLAMA | dict(hidden_size=24, pad_token_id=0)
LONGROPE = dict(rope_type="longrope", rope_theta=500.0, short_factor=[1.0, 1.1, 1.3, 1.2],
                long_factor=[1.2, 2.5, 3.0, 4.5])  # fmt: skip
PHI3_LONG = PHI3 | dict(max_position_embeddings=32, original_max_position_embeddings=8, rope_parameters=LONGROPE)
GRANITE = LLAMA | dict(embedding_multiplier=1.7, residual_multiplier=0.6, attention_multiplier=0.3, logits_scaling=2.5)
SMOLLM3 = LLAMA | dict(num_hidden_layers=5, pad_token_id=0)
MIXTRAL = LLAMA | dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=9)
QWEN2_MOE = LLAMA | dict(num_experts=5, num_experts_per_tok=3, moe_intermediate_size=7, num_key_value_heads=3,
                         shared_expert_intermediate_size=11)  # fmt: skip
GPT_OSS = LLAMA | dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=9, head_dim=8, sliding_window=4,
                       swiglu_limit=1.5)  # fmt: skip
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=16.0, beta_slow=1.0, truncate=False,
            original_max_position_embeddings=64)  # fmt: skip

CASES = [
    *two("gemma", "GemmaForCausalLM", GEMMA, GEMMA | dict(attention_bias=True)),
    *two("gemma2", "Gemma2ForCausalLM", GEMMA2, GEMMA2 | dict(final_logit_softcapping=None)),
    *two("gemma3_text", "Gemma3ForCausalLM",
         GEMMA3 | dict(layer_types=["full_attention", "sliding_attention", "full_attention"], rope_parameters=dict(
             full_attention=dict(rope_type="linear", rope_theta=5000.0, factor=4.0),
             sliding_attention=dict(rope_type="default", rope_theta=200.0))),
         GEMMA3 | dict(layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                       rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0),
                                            sliding_attention=dict(rope_type="default", rope_theta=300.0)))),
    *two("phi3", "Phi3ForCausalLM", PHI3 | dict(sliding_window=4), PHI3),
    *two("phi3-longrope", "Phi3ForCausalLM", PHI3_LONG, PHI3_LONG),
    *two("olmo", "OlmoForCausalLM", LLAMA | dict(clip_qkv=0.9), LLAMA | dict(attention_bias=True)),
    *two("olmo2", "Olmo2ForCausalLM", LLAMA, LLAMA | dict(num_key_value_heads=3)),
    *two("granite", "GraniteForCausalLM", GRANITE | dict(attention_bias=True, mlp_bias=True), GRANITE),
    *two("smollm3", "SmolLM3ForCausalLM",
         SMOLLM3 | dict(num_hidden_layers=3, no_rope_layers=[1, 0, 1], use_sliding_window=True, sliding_window=4),
         SMOLLM3),
    *two("mixtral", "MixtralForCausalLM", MIXTRAL | dict(head_dim=8), MIXTRAL | dict(sliding_window=4)),
    *two("qwen2_moe", "Qwen2MoeForCausalLM",
         QWEN2_MOE | dict(norm_topk_prob=True, mlp_only_layers=[1], num_hidden_layers=3),
         QWEN2_MOE | dict(decoder_sparse_step=2)),
    *two("gpt_oss", "GptOssForCausalLM", GPT_OSS | dict(rope_parameters=YARN),
         GPT_OSS | dict(rope_parameters=YARN | dict(factor=32.0, beta_fast=32.0))),
    ModelCase("phi3-su", "Phi3ForCausalLM", PHI3_LONG, lengths=(7, 9), dtype="float16", edit_config=old_longrope),
    ModelCase("gpt_oss-mxfp4", "GptOssForCausalLM", GPT_OSS | dict(
        hidden_size=32, intermediate_size=32, num_local_experts=3, rope_parameters=YARN), lengths=(2, 9),
        dtype="bfloat16", edit_config=mxfp4_config, edit_tensors=[mxfp4_experts]),
    ModelCase("mixtral-packed", "MixtralForCausalLM", MIXTRAL, lengths=(5,), dtype="float16",
              edit_tensors=[packed_experts]),
    ModelCase("qwen2_moe-packed", "Qwen2MoeForCausalLM", QWEN2_MOE | dict(
        use_sliding_window=True, sliding_window=3, max_window_layers=1), lengths=(7,), dtype="float16",
        edit_tensors=[packed_experts]),
]  # fmt: skip
for case in CASES:
    if case.name.startswith("phi3-longrope"):
        case.lengths, case.padded = (8, 9, 17), False
