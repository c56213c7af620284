#pragma once

#include "linalg/gemm_kernels.hpp"
#include "linalg/gemm_nn_impl.hpp"
#include "linalg/gemm_tools.hpp"

namespace attnctl::linalg {
namespace {

/// c = a b or a b^T on many rows: b is laid out on the way, a panel as wide as a tile and as deep as stays in
/// L2, and all rows of a pass over it while memory is asked for what the next panel is made of.
template <typename Arch>
struct ProductsByPanels {
  using Columns = ProductsOfColumns<Arch>;
  static constexpr std::size_t lanes = Columns::lanes;
  static constexpr std::size_t cols = Columns::cols;
  static constexpr std::size_t depth_at_once = 384;

  /// A part of b, rows or columns of it as it is stored.
  struct Source {
    const float* data = nullptr;
    std::size_t depth = 0, count = 0;  // of the inner extent, of columns of c
  };

  static Source source(const Product& p, bool transposed, std::size_t first_inner, std::size_t first_col) {
    const float* const data =
        transposed ? p.b + first_col * p.b_stride + first_inner : p.b + first_inner * p.b_stride + first_col;
    return {data, p.k - first_inner < depth_at_once ? p.k - first_inner : depth_at_once,
            p.n - first_col < cols ? p.n - first_col : cols};
  }

  /// `count` rows of b, [count, depth], as a panel [depth, cols], padded by zeros.
  static void pack_transposed(const float* b, std::size_t stride, std::size_t depth, std::size_t count,
                              float* to) {
    const std::size_t whole_depth = depth / lanes * lanes;
    const std::size_t whole_count = count / lanes * lanes;
    for (std::size_t p = 0; p < whole_depth; p += lanes) {
      for (std::size_t j = 0; j < whole_count; j += lanes)
        transpose<typename Columns::Batch>(b + j * stride + p, stride, to + p * cols + j, cols);
    }
    for (std::size_t j = 0; j < cols; ++j) {
      for (std::size_t p = j < whole_count ? whole_depth : 0; p < depth; ++p)
        to[p * cols + j] = j < count ? b[j * stride + p] : 0;
    }
  }

  /// Asks for part `index` of `parts` of a source's cache lines.
  static void ask(const Source& source, std::size_t stride, bool transposed, std::size_t index,
                  std::size_t parts) {
    const std::size_t rows = transposed ? source.count : source.depth;
    const std::size_t lines = (transposed ? source.depth : source.count) / 16;
    const Part part(rows * lines, index, parts);
    if (part.count == 0) return;
    std::size_t row = part.first % rows;
    const float* line = source.data + part.first / rows * 16;
    for (std::size_t left = part.count; left > 0; --left) {
      prefetch(line + row * stride);
      if (++row < rows) continue;
      row = 0;
      line += 16;
    }
  }

  static void multiply_panel(const Product& p, bool transposed, std::size_t first_inner,
                             std::size_t first_col, float* room) {
    const Source own = source(p, transposed, first_inner, first_col);
    if (transposed) {
      pack_transposed(own.data, p.b_stride, own.depth, own.count, room);
    } else {
      Columns::pack(own.data, p.b_stride, own.depth, own.count, room);
    }
    Source next;
    if (first_inner + own.depth < p.k) {
      next = source(p, transposed, first_inner + own.depth, first_col);
    } else if (first_col + cols < p.n) {
      next = source(p, transposed, 0, first_col + cols);
    }
    const std::size_t tiles = (p.m + Columns::rows - 1) / Columns::rows;
    for (std::size_t t = 0; t < tiles; ++t) {
      const Part rows(p.m, t, tiles);
      if (next.data != nullptr) ask(next, p.b_stride, transposed, t, tiles);
      Columns::tile_part({own.depth,
                          p.a + rows.first * p.a_stride + first_inner,
                          p.a_stride,
                          room,
                          cols,
                          p.c + rows.first * p.c_stride + first_col,
                          p.c_stride,
                          p.alpha,
                          p.accumulate || first_inner > 0,
                          {}},
                         rows.count, 0, own.count);
    }
  }

  static void multiply(const Product& p, bool transposed, float* room) {
    for (std::size_t j = 0; j < p.n; j += cols) {
      for (std::size_t first = 0; first < p.k; first += depth_at_once)
        multiply_panel(p, transposed, first, j, room);
    }
  }
  static void nn(const Product& p, float* room) { multiply(p, false, room); }
  static void nt(const Product& p, float* room) { multiply(p, true, room); }

  static_assert(cols * depth_at_once <= gemm_room);
};

}  // namespace
}  // namespace attnctl::linalg
