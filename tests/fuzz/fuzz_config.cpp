#include "analysis/model_summary.hpp"
#include "formats/json.hpp"
#include "fuzz.hpp"
#include "model/families/family.hpp"

// A config.json, and what `info` says about it.
ATTNCTL_FUZZ_TARGET(config) {
  using namespace attnctl;
  checkpoint::ModelSource source;
  source.given = source.config_path = "config.json";
  source.config = formats::parse_json("config.json", bytes);
  source.weights = std::make_unique<checkpoint::Checkpoint>();
  if (!source.config.is_object()) return;
  const model::FamilySpec family = model::family_of("config.json", source.config);
  analysis::SummarySubject subject{.config = model::resolve_config(family, source)};
  fuzz::write_all(analysis::model_summary(subject, {.length = {}, .shapes = true}));
}
