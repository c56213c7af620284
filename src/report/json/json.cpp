#include "report/json/json.hpp"

#include <vector>

#include "report/json/json_plan.hpp"
#include "report/ordered_chunks.hpp"

namespace attnctl {
namespace {

/// Groups pieces into tasks: task i formats the pieces begin[i] to begin[i + 1] - 1. A task has many small
/// pieces or one large piece.
std::vector<std::size_t> group_pieces(const std::vector<JsonPiece>& pieces) {
  constexpr std::size_t enough = 32768;
  std::vector<std::size_t> begins{0};
  std::size_t work = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const JsonPiece& piece = pieces[i];
    const std::size_t columns = piece.table != nullptr ? piece.table->columns.size() : 1;
    work += piece.text.size() / 64 + (piece.last - piece.first) * columns;
    if (work < enough && i + 1 < pieces.size()) continue;
    begins.push_back(i + 1);
    work = 0;
  }
  return begins;
}

void write_pieces(OutputFile& out, const std::vector<JsonPiece>& pieces, const WriteOptions& options) {
  const std::vector<std::size_t> begins = group_pieces(pieces);
  const auto format = [&](std::size_t chunk, std::string& text) {
    for (std::size_t i = begins[chunk]; i < begins[chunk + 1]; ++i) {
      append_piece(text, options.number, pieces[i]);
    }
  };
  write_in_order(options.pool, begins.size() - 1, format, [&](const std::string& text) { out.write(text); });
}

}  // namespace

void write_json(OutputFile& out, const Document& document, const WriteOptions& options) {
  JsonPlan plan(options.number);
  plan.add_document(document);
  write_pieces(out, plan.finish(), options);
}

void write_jsonl(OutputFile& out, const Document& document, const WriteOptions& options) {
  JsonPlan plan(options.number);
  plan.add_lines(document);
  out.write_whole_lines();
  write_pieces(out, plan.finish(), options);
}

}  // namespace attnctl
