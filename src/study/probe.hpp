#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// The standard probe for induction: random tokens said twice (Olsson et al. 2022), and its control.
struct ProbePlan {
  std::size_t sequences = 0;  // repeated ones, and as many controls; 0: no probe
  std::size_t length = 32;    // tokens of one copy, fewer where the model or its vocabulary has no room
  std::uint64_t seed = 0;
};

/// Where the copies stand in a sequence of the probe: tokens [first, first + length) and, to its end, the
/// same again; in a control other tokens come first, and the second half is that of its repeated twin.
struct ProbeMarks {
  std::size_t first = 0;
  std::size_t length = 0;
  bool repeated = false;
};

struct ProbeSequence {
  Sequence sequence;
  ProbeMarks marks;
};

/// What sequences are made of.
struct ProbeRoom {
  std::vector<std::int64_t> prefix;  // begins every sequence: BOS or [CLS]
  std::size_t ids = 0;               // of the model, from 0
  std::size_t positions = 0;         // tokens of a sequence, at most
};

/// The sequences of a plan, each repeated one before its control: the same for the same arguments, whatever
/// else is computed. Tokens of a sequence are distinct and not special. None where two copies of at least
/// four tokens find no room, or there are not twice as many tokens to choose from as a pair needs.
[[nodiscard]] std::vector<ProbeSequence> probe_sequences(const ProbePlan& plan, const ProbeRoom& room,
                                                         const Vocabulary& vocabulary);

}  // namespace attnctl
