#pragma once

#include <cstdint>

#include "base/files/output_file.hpp"
#include "report/write_options.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Writes a document as one JSON object: a head field a line, in a section an item a line, in a matrix a row
/// a line. Numbers that are not finite become null (count_non_finite says how many). Arrays and tables are
/// formatted in parallel and written in order; memory stays at a few chunks of text however large they are.
void write_json(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// The same as JSON Lines: first a line with the head fields, then a line for each item of each section, with
/// "record" (Section::record) as its first field; an item that is no record is the field "value" of one.
/// Lines go out whole (OutputFile::write_whole_lines).
void write_jsonl(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// How many numbers of the document are NaN or infinite, hence null in JSON.
[[nodiscard]] std::uint64_t count_non_finite(const Document& document);

/// How many values a text format would write: elements of arrays, cells of tables, single values.
[[nodiscard]] std::uint64_t count_values(const Document& document);

}  // namespace attnctl
