#include <doctest/doctest.h>

#include "model/families/family.hpp"
#include "model/model.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/refusal.hpp"

namespace {

using attnctl::Activation;
using attnctl::Status;
using attnctl::test::MemoryModel;

}  // namespace

TEST_CASE("both spellings of a key, missing keys and nulls resolve to the same model") {
  struct Row {
    const char* model;
    const char* patch;
  };
  for (
      const Row& row : {
          Row{"gpt2", R"({"n_embd": null, "hidden_size": 15, "n_head": null, "num_attention_heads": 3,
                           "n_layer": null, "num_hidden_layers": 2, "n_positions": null, "max_position_embeddings": 12})"},
          Row{"gpt2",
              R"({"n_inner": 60, "scale_attn_weights": null, "layer_norm_epsilon": null, "activation_function": null})"},
          Row{"bert",
              R"({"layer_norm_eps": null, "hidden_act": null, "type_vocab_size": null, "is_decoder": null,
                           "position_embedding_type": "absolute", "pruned_heads": {}})"},
          Row{"llama", R"({"attn_pdrop": 0.3, "attention_dropout": 0.5, "some_new_key": {"a": [1]}})"},
          Row{"llama-old",
              R"({"num_key_value_heads": 2, "head_dim": 10, "rope_theta": 10000, "rope_scaling": {"type": "default"}})"},
      }) {
    CAPTURE(std::string(row.patch));
    const attnctl::Model plain = MemoryModel::golden(row.model).bound();
    const attnctl::Model changed = MemoryModel::golden(row.model).patched(row.patch).bound();
    CHECK(changed.parameters() == plain.parameters());
    const attnctl::LayerConfig& a = plain.config().layers.at(0);
    const attnctl::LayerConfig& b = changed.config().layers.at(0);
    CHECK(a.attention.heads == b.attention.heads);
    CHECK(a.attention.kv_heads == b.attention.kv_heads);
    CHECK(a.attention.d_head == b.attention.d_head);
    CHECK(a.attention.scale == b.attention.scale);
    CHECK(a.attention.causal == b.attention.causal);
    CHECK(a.mlp.width == b.mlp.width);
    CHECK(a.mlp.activation == b.mlp.activation);
    CHECK(a.norm.eps == b.norm.eps);
    if (a.attention.rotary)
      CHECK(a.attention.rotary->inverse_frequency == b.attention.rotary->inverse_frequency);
  }
}

TEST_CASE("properties of the forward pass come from the configuration") {
  CHECK(MemoryModel::golden("bert")
            .patched(R"({"is_decoder": true})")
            .bound()
            .config()
            .layers[0]
            .attention.causal);
  CHECK_FALSE(MemoryModel::golden("bert").bound().config().layers[0].attention.causal);
  CHECK(MemoryModel::golden("attention")
            .patched(R"({"causal": true})")
            .bound()
            .config()
            .layers[0]
            .attention.causal);

  const auto scaled = MemoryModel::golden("gpt2-inverse-layer").bound();
  CHECK(scaled.config().layers[0].attention.scale == 0.5);
  CHECK(scaled.config().layers[2].attention.scale == 0.5 / 3);
  CHECK(MemoryModel::golden("gpt2-unscaled").bound().config().layers[0].attention.scale == 1);
  CHECK(MemoryModel::golden("attention-layers").bound().config().layers[1].attention.scale == 0.35);
  CHECK(MemoryModel::golden("attention").bound().config().layers[0].attention.scale == 0.5);  // d_head 4

  CHECK(MemoryModel::golden("llama").bound().config().position_in_scores());
  CHECK_FALSE(MemoryModel::golden("bert").bound().config().position_in_scores());
  CHECK(MemoryModel::golden("llama")
            .patched(R"({"pad_token_id": 0, "eos_token_id": [2, 5, 39, -1]})")
            .bound()
            .config()
            .special_ids == std::vector<std::int64_t>{0, 1, 2, 5});

  const auto albert = MemoryModel::golden("albert").bound();
  std::vector<std::size_t> groups;
  for (const attnctl::LayerConfig& layer : albert.config().layers) groups.push_back(layer.stored_as);
  CHECK(groups == std::vector<std::size_t>{0, 0, 0, 1, 1});
}

TEST_CASE("which layers have a window, also for missing and null keys") {
  struct Row {
    const char* model;
    const char* patch;
    std::vector<std::size_t> want;  // 0: all keys
  };
  for (const Row& row : {
           // a null of a patch takes the key away
           Row{"mistral", "{}", {4, 4}},
           Row{"mistral", R"({"sliding_window": null})", {4096, 4096}},
           Row{"mistral-full", "{}", {0, 0}},
           Row{"qwen2", "{}", {0, 3, 3}},
           Row{"qwen2", R"({"layer_types": null, "max_window_layers": 2})", {0, 0, 3}},
           Row{"qwen2", R"({"layer_types": null, "max_window_layers": 0})", {3, 3, 3}},
           Row{"qwen2", R"({"layer_types": null, "max_window_layers": null})", {0, 0, 0}},
           Row{"qwen2", R"({"layer_types": null, "use_sliding_window": null})", {0, 0, 0}},
           Row{"qwen3", "{}", {3, 0}},
           Row{"qwen3-old", "{}", {0, 0}},
       }) {
    CAPTURE(std::string(row.model));
    CAPTURE(std::string(row.patch));
    std::vector<std::size_t> sizes;
    const auto model = MemoryModel::golden(row.model).patched(row.patch).bound();
    for (const attnctl::LayerConfig& layer : model.config().layers)
      sizes.push_back(layer.attention.kind.size);
    CHECK(sizes == row.want);
  }
}

TEST_CASE("every activation name resolves") {
  struct Row {
    const char* name;
    Activation want;
  };
  for (const Row& row :
       {Row{"gelu", Activation::gelu_erf}, Row{"gelu_new", Activation::gelu_tanh},
        Row{"gelu_pytorch_tanh", Activation::gelu_tanh}, Row{"gelu_fast", Activation::gelu_tanh},
        Row{"relu", Activation::relu}, Row{"silu", Activation::silu}, Row{"swish", Activation::silu},
        Row{"tanh", Activation::tanh}}) {
    CAPTURE(std::string(row.name));
    const auto model =
        MemoryModel::golden("llama").patched(fmt::format(R"({{"hidden_act": "{}"}})", row.name)).bound();
    CHECK(model.config().layers[0].mlp.activation == row.want);
  }
}

TEST_CASE("every family has a golden model whose configuration resolves without weights") {
  for (const attnctl::FamilySpec& family : attnctl::families()) {
    CAPTURE(family.name);
    attnctl::ModelSource source = MemoryModel::golden(family.name).source();
    const auto with_weights = attnctl::resolve_config(source);
    CHECK(with_weights.family == family.name);
    source.weights.reset();
    if (family.sizes == attnctl::SizesFrom::tensors) {
      attnctl::test::check_refusal([&] { static_cast<void>(attnctl::resolve_config(source)); },
                                   Status::bad_input, {"need a weights file"});
      continue;
    }
    const auto without = attnctl::resolve_config(source);
    CHECK(without.layers.size() == with_weights.layers.size());
    CHECK(without.layers[0].attention.d_head == with_weights.layers[0].attention.d_head);
    CHECK(without.head.present == with_weights.head.present);
    CHECK(without.head.tied == with_weights.head.tied);
  }
}
