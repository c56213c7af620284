#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// Settings of the standard induction probe: random sequences, repeated once (Olsson et al. 2022), and their
/// controls.
struct ProbePlan {
  std::size_t sequences = 0;  // number of repeated sequences, each with one control; 0: no probe
  std::size_t length = 32;    // tokens of one copy; fewer if the model or its vocabulary is too small
  std::uint64_t seed = 0;
};

/// Positions of the copies in a probe sequence. The first copy is tokens [first, first + length); the second
/// copy follows it and ends the sequence. In a control, the first copy has other tokens, and the second copy
/// equals that of its repeated sequence.
struct ProbeMarks {
  std::size_t first = 0;
  std::size_t length = 0;
  bool repeated = false;
};

struct ProbeSequence {
  Sequence sequence;
  ProbeMarks marks;
};

/// Limits of the model for probe sequences.
struct ProbeLimits {
  std::vector<std::int64_t> prefix;  // first tokens of every sequence, for example BOS or [CLS]
  std::size_t ids = 0;               // size of the model's vocabulary
  std::size_t positions = 0;         // largest number of tokens of a sequence
};

/// Returns the sequences of a plan: each repeated sequence, followed by its control. The result depends only
/// on the arguments. The tokens of a copy are distinct and not special. Returns no sequences if two copies of
/// four tokens do not fit, or if the vocabulary has too few ordinary tokens.
[[nodiscard]] std::vector<ProbeSequence> probe_sequences(const ProbePlan& plan, const ProbeLimits& limits,
                                                         const Vocabulary& vocabulary);

}  // namespace attnctl
