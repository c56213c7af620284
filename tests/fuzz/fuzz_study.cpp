#include <algorithm>
#include <cstddef>

#include "fuzz.hpp"
#include "study/state/state_io.hpp"
#include "study/state/study_state.hpp"

// Two states, which are merged or compared. A state is a file or, so that its checksum need not fit, the
// content of one; the first two bytes are the length of the first state. Results are made of each state.
ATTNCTL_FUZZ_TARGET(study) {
  using namespace attnctl;
  static Pool pool(1);
  if (bytes.size() < 2) return;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t length = std::min<std::size_t>(byte(0) + 256U * byte(1), bytes.size() - 2);
  const auto read = [](std::string_view state) {
    if (state.starts_with("attnctl study")) return study::StudyState::parse(state, "fuzz");
    study::StateReader in(state, "fuzz");
    return study::StudyState(in);
  };
  study::StudyState first = read(bytes.substr(2, length));
  const Results results = study::study_results(first, pool);
  fuzz::write_all(results);
  if (bytes.size() == length + 2) return;
  study::StudyState second = read(bytes.substr(2 + length));
  fuzz::attempt([&] {
    Warnings warnings;
    fuzz::write_all(study::compare_studies(results, study::study_results(second, pool), {}, warnings));
  });
  first.merge(second, "fuzz", "other");
  fuzz::write_all(study::study_results(first, pool));
}
