#include "model/config/text_tower.hpp"

#include <vector>

namespace attnctl {
namespace {

/// What names of a tower begin with, the first being the one that an error names.
constexpr const char* kTowers[] = {"language_model.", "model.language_model.", "text_model.",
                                   "model.text_model."};

void add_towers(std::vector<StoredTensor>& tensors) {
  const std::vector<StoredTensor> plain = tensors;
  for (const char* tower : kTowers) {
    for (StoredTensor tensor : plain) {
      tensor.name = tower + tensor.name;
      tensors.push_back(tensor);
    }
  }
}

}  // namespace

ConfigReader text_reader(const std::string& file, const nlohmann::ordered_json& config) {
  const ConfigReader whole(file, config);
  const auto text = whole.object("text_config");
  if (!text) return whole;
  if (const auto packed = whole.find("quantization_config")) whole.refuse_unsupported(*packed, "null");
  return *text;
}

void put_in_tower(FamilySpec& row) {
  std::vector<std::string> prefixes;
  for (const char* tower : kTowers) {
    for (const std::string& prefix : row.prefixes) prefixes.push_back(tower + prefix);
  }
  prefixes.insert(prefixes.end(), row.prefixes.begin(), row.prefixes.end());
  row.prefixes = std::move(prefixes);
  if (!row.head) return;
  for (LinearSpec* part : {&row.head->decoder, &row.head->transform}) {
    add_towers(part->weight);
    add_towers(part->bias);
  }
}

}  // namespace attnctl
