#include "model/families/family_parts.hpp"

namespace attnctl {
namespace {

/// A name of today and one of the hub.
LinearSpec either(const std::string& name, const std::string& old) {
  LinearSpec spec = linear(name);
  spec.weight.push_back({old + ".weight"});
  spec.bias.push_back({old + ".bias"});
  return spec;
}

LinearSpec biased_if(LinearSpec spec, const std::string& key) {
  spec.bias_presence = {.rule = Presence::Rule::configured, .key = key, .otherwise = true};
  return spec;
}

FamilySpec vit() {
  FamilySpec spec;
  spec.name = "vit";
  spec.prefixes = {"vit.", ""};
  spec.stack = {
      .prefixes = {"encoder.layer.{}.", "layers.{}."},
      .layer = {.query = biased_if(either("attention.q_proj", "attention.attention.query"), "qkv_bias"),
                .key = biased_if(either("attention.k_proj", "attention.attention.key"), "qkv_bias"),
                .value = biased_if(either("attention.v_proj", "attention.attention.value"), "qkv_bias"),
                .output = either("attention.o_proj", "attention.output.dense"),
                .attention_norm = layer_norm("layernorm_before"),
                .mlp_norm = layer_norm("layernorm_after"),
                .up = either("mlp.fc1", "intermediate.dense"),
                .down = either("mlp.fc2", "output.dense")}};
  spec.embedding = {.position = {"embeddings.position_embeddings"},
                    .class_token = {"embeddings.cls_token"},
                    .patches = linear("embeddings.patch_embeddings.projection")};
  spec.final_norm = layer_norm("layernorm");
  spec.keys = {.d_model = {{"hidden_size"}, 768},
               .layers = {{"num_hidden_layers"}, 12},
               .heads = {{"num_attention_heads"}, 12},
               .d_head = {{"head_dim"}, {}},
               .mlp_width = {{"intermediate_size"}, 3072},
               .channels = {{"num_channels"}, 3},
               .image = {{"image_size"}, 224},
               .patch = {{"patch_size"}, 16},
               .norm_eps = {"layer_norm_eps"},
               .activation = {"hidden_act"},
               .norm_eps_otherwise = 1e-12,
               .activation_otherwise = "gelu"};
  spec.norm = NormKind::layer;
  spec.place = NormPlace::pre;
  spec.position = PositionKind::learned;
  return spec;
}

}  // namespace

std::vector<FamilySpec> vision_families() {
  return {vit()};
}

}  // namespace attnctl
