#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/session.hpp"
#include "model/families/presets.hpp"
#include "results/results.hpp"

namespace attnctl::cli {

/// The subject of `info`: a model, or a configuration without weights.
struct InfoSubject {
  std::optional<OpenModel> open;
  const Preset* preset = nullptr;
  ModelConfig config;

  [[nodiscard]] const Model* model() const { return open ? &open->model : nullptr; }
};

struct InfoAsked {
  std::size_t length = 0;
  std::size_t batch = 1;
  bool shapes = false;
  bool tensors = false;
};

/// A section of the output of `info`. A record of single values is a field of the document, and a table with
/// two columns in text. A table is a section of the document.
struct InfoPart {
  std::string name;   // "flops"
  std::string title;  // heading in text
  std::variant<Record, Table> content;
  std::string record = {};     // name of a table row in JSON Lines
  const char* what = "value";  // heading of the second column of a record
};

/// Returns the sections of a subject, in the order of the output.
[[nodiscard]] std::vector<InfoPart> info_parts(const InfoSubject& subject, const InfoAsked& asked);

/// Return the records "model" and "architecture" of a subject, and what a checkpoint contains besides its
/// parameters.
[[nodiscard]] Record subject_record(const InfoSubject& subject);
[[nodiscard]] Record architecture_record(const InfoSubject& subject);
[[nodiscard]] Record stored_record(const Model& model);
[[nodiscard]] Table tensors_apart(const Model& model);

/// Returns the supported families, one row per family. A property that only some configurations of a family
/// have is listed too.
[[nodiscard]] Table families_table();

}  // namespace attnctl::cli
