#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/files/output_file.hpp"
#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "report/svg/svg.hpp"
#include "report/text/text.hpp"
#include "report/write_options.hpp"
#include "results/result.hpp"

// Results that hold numbers of a model are written through these functions (NPZ streams by itself). They
// count the numbers that are not finite, add the warning non_finite_result, and check the warnings under
// --strict before anything of the result reaches a pipe.
namespace attnctl::cli {

/// Adds the warning non_finite_result, unless `count` is 0. `where` names the table, array or section.
void warn_non_finite(Warnings& warnings, std::string_view where, std::uint64_t count);

/// Writes JSON or JSON Lines. The last section of the document is "warnings".
void write_document(OutputFile& out, Document document, Format format, WriteOptions options,
                    Session& session);

/// Writes a table as CSV.
void write_table(OutputFile& out, const Table& table, WriteOptions options, Session& session);

/// Writes what `make` returns for the style of the target.
void write_text(OutputFile& out, const Target& target, Session& session,
                const std::function<std::string(const TextOptions& style)>& make);

/// Writes an SVG of heatmaps, or of charts of one table.
void write_picture(OutputFile& out, const HeatmapPage& page, Session& session,
                   std::span<const std::string> texts = {});
void write_picture(OutputFile& out, const std::string& title, const Table& table,
                   std::span<const Chart> charts, Session& session);

}  // namespace attnctl::cli
