#pragma once

#include <string>
#include <string_view>
#include <vector>

/// The house rules of docs/architecture.md that a compiler does not check.
namespace attnctl::test {

/// Checks one source file. `path` is relative to the project ("src/forward/run.cpp"); files outside of src
/// have no rules. Returns a sentence for each breach:
///  - a folder includes only those to its left (base; linalg, checkpoint, tokenizer; input; model; ...),
///  - BLAS, LAPACK and SIMD headers stand below linalg/ alone, the option parser below cli/ alone,
///  - no model family is named in code outside of the family table (src/model/families).
[[nodiscard]] std::vector<std::string> source_breaches(std::string_view path, std::string_view text);

/// C++ source without comments; everything else, string literals included, stays.
[[nodiscard]] std::string without_comments(std::string_view text);

}  // namespace attnctl::test
