#include <array>
#include <string>
#include <utility>

#include "inspect/inspection.hpp"
#include "inspect/open_model.hpp"
#include "inspect/stored/stored_patterns.hpp"
#include "weights.hpp"

// The first byte chooses the options of `attnctl view`; the others are an NPZ archive.
ATTNCTL_FUZZ_TARGET(view) {
  using namespace attnctl;
  if (bytes.empty()) return;
  const auto flags = static_cast<unsigned char>(bytes.front());
  Warnings warnings;
  static Pool pool(1);
  inspect::StoredRequest stored{.file = "/nonexistent/folder/fuzz.npz", .softmax = (flags & 1U) != 0};
  const std::string archive = fuzz::with_checksums(bytes.substr(1));
  const inspect::StoredPatterns patterns(stored, fuzz::read_bytes(archive, checkpoint::read_npz), warnings);
  constexpr std::array kForms = {inspect::Form::document, inspect::Form::tables, inspect::Form::text,
                                 inspect::Form::page};
  inspect::InspectRequest request;
  request.form = kForms.at(flags >> 1U & 3U);
  request.includes = inspect::resolve_includes(
      (flags & 32U) != 0 && patterns.complete() ? "metrics,patterns,rollout,flow" : "metrics,patterns", true,
      inspect::Given::patterns, request.form);
  request.selection = patterns.stored(
      inspect::select_heads({.component = "", .layers = "", .heads = ""}, patterns.model().config()), false);
  request.by_word = (flags & 8U) != 0;
  request.from = (flags & 16U) != 0 ? "0" : "";
  request.per_input = (flags & 64U) != 0;
  request.limit = 20'000;
  inspect::InspectSubject subject{.model = patterns.model(),
                                  .vocabulary = patterns.vocabulary(),
                                  .batch = patterns.batch(),
                                  .stored = &patterns};
  inspect::Inspection inspection(request, std::move(subject), {.pool = pool, .warnings = warnings});
  fuzz::write_all(inspection.run());
}
