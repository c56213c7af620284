#include <utility>
#include <vector>

#include "cli/commands/verify.hpp"
#include "formats/json.hpp"
#include "model/families/family.hpp"
#include "model/families/presets.hpp"
#include "weights.hpp"

// The file of `verify --against`, for a model with one component and for one with three.
ATTNCTL_FUZZ_TARGET(reference) {
  using namespace attnctl;
  static const std::vector<model::ModelConfig> configs = [] {
    checkpoint::ModelSource source;
    source.config = formats::parse_json(
        "config", R"({"model_type": "t5", "d_model": 8, "d_kv": 4, "num_heads": 2, "num_layers": 1, "d_ff": 8,
                      "num_decoder_layers": 1, "vocab_size": 11})");
    return std::vector{model::bare_config({.d_model = 8, .heads = 2, .layers = 2}),
                       model::resolve_config(model::family_of("config", source.config), source)};
  }();
  const std::string archive = fuzz::with_checksums(bytes);
  const auto file = fuzz::read_bytes(archive, checkpoint::read_npz);
  for (const model::ModelConfig& config : configs) {
    fuzz::attempt([&] {
      for (const cli::ReferenceInput& input : cli::read_reference(*file, "fuzz", config)) {
        input::Sequence sequence;
        sequence.ids = input.ids;
        if (!input.target_ids.empty()) {
          sequence.target = std::make_shared<input::Sequence>();
          sequence.target->ids = input.target_ids;
        }
        cli::check_reference_shapes(input.pass, config, sequence, "fuzz");
      }
    });
  }
}
