#include <vector>

#include <doctest/doctest.h>

#include "checkpoint/source.hpp"
#include "formats/json.hpp"
#include "model/families/family.hpp"
#include "support/temp_dir.hpp"

namespace {

using Json = nlohmann::ordered_json;

const attnctl::RotaryConfig& rotary_of(const attnctl::ModelConfig& config) {
  return *config.layers.at(0).attention.rotary;
}

attnctl::ModelConfig resolved(Json config) {
  config["model_type"] = "llama";
  config["num_hidden_layers"] = 1;
  attnctl::ModelSource source;
  source.config_path = "config.json";
  source.config = std::move(config);
  return attnctl::resolve_config(source);
}

std::vector<float> numbers(const Json& list) {
  std::vector<float> values;
  for (const auto& value : list) values.push_back(static_cast<float>(value.get<double>()));
  return values;
}

/// Returns the configuration with the keys of older versions instead of the new ones.
Json with_old_keys(Json config) {
  if (!config.contains("rope_parameters") || config.contains("rope_scaling") ||
      config.contains("rope_theta")) {
    return config;
  }
  Json scaling = config["rope_parameters"];
  config.erase("rope_parameters");
  config["rope_theta"] = scaling["rope_theta"];
  scaling.erase("rope_theta");
  scaling["type"] = scaling["rope_type"];
  scaling.erase("rope_type");
  config["rope_scaling"] = scaling["type"] == "default" ? Json() : scaling;
  return config;
}

}  // namespace

TEST_CASE("inverse frequencies equal those of transformers bit for bit, with new keys, old keys and both") {
  const auto path = ATTNCTL_SOURCE_DIR "/tests/golden/rotary.json";
  const Json cases = attnctl::parse_json(path, attnctl::test::slurp(path));
  CHECK(cases.size() >= 31);
  for (const Json& row : cases) {
    CAPTURE(row["config"].dump());
    for (const auto& config : {resolved(row["config"]), resolved(with_old_keys(row["config"]))}) {
      const attnctl::RotaryConfig& rotary = rotary_of(config);
      CHECK(rotary.dims == 2 * row["inverse_frequency"].size());
      CHECK(rotary.inverse_frequency == numbers(row["inverse_frequency"]));
      CHECK(rotary.attention_factor == static_cast<float>(row["attention_factor"].get<double>()));
      CHECK(rotary.long_inverse_frequency == numbers(row.value("long_inverse_frequency", Json::array())));
      CHECK(rotary.long_from == row.value("long_from", std::size_t{0}));
    }
  }
}
