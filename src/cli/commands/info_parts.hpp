#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/session.hpp"
#include "model/families/presets.hpp"
#include "results/result.hpp"

namespace attnctl::cli {

/// What `info` is about: a model, or a configuration without weights.
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

/// A part of the account: a record of single values, which is a field of the document and a table of two
/// columns in text, or a table, which is a section.
struct InfoPart {
  std::string name;   // "flops"
  std::string title;  // in text
  std::variant<Record, Table> content;
  std::string record = {};     // what a row of the table is called in JSON Lines
  const char* what = "value";  // heads the second column of a record
};

/// The account of a subject, in the order of the output.
[[nodiscard]] std::vector<InfoPart> info_parts(const InfoSubject& subject, const InfoAsked& asked);

/// "model" and "architecture" of it, and what a checkpoint holds besides its parameters.
[[nodiscard]] Record subject_record(const InfoSubject& subject);
[[nodiscard]] Record architecture_record(const InfoSubject& subject);
[[nodiscard]] Record stored_record(const Model& model);
[[nodiscard]] Table tensors_apart(const Model& model);

/// The families that attnctl knows by their properties, a row each; a word of a property that only some
/// configurations of a family have counts.
[[nodiscard]] Table families_table();

}  // namespace attnctl::cli
