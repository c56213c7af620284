#pragma once

#include "attnctl/model.hpp"
#include "attnctl/results.hpp"
#include "attnctl/study.hpp"

namespace attn {

/// Options of compare(). Their meaning is that of `attnctl compare` (docs/compare.md).
struct CompareOptions {
  /// Compare each head of a with its best match in b, instead of the head with the same name: by weights or,
  /// with a corpus, by patterns.
  bool match = false;
  StudyOptions study = {};  // without a corpus, only `seed` and `run`; `state` and `checkpoint` are not used
};

/// Compares the weights of two models of the same shape. Returns the tables that `attnctl compare A B` writes
/// as CSV. Differences are b - a. Throws Error(bad_input) if the models have different shapes, and the errors
/// of study().
[[nodiscard]] Results compare(const Model& a, const Model& b, const CompareOptions& options = {});

/// Compares what the heads of two models do on a corpus, and the weights if the models have the same shape.
/// Returns the tables that `attnctl compare A B --input CORPUS` writes as CSV. Throws the errors of study().
[[nodiscard]] Results compare(const Model& a, const Model& b, const Corpus& corpus,
                              const CompareOptions& options = {});

}  // namespace attn
