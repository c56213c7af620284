#pragma once

#include "linalg/gemm_kernels.hpp"
#include "linalg/gemm_nn_impl.hpp"
#include "linalg/gemm_tools.hpp"

namespace attnctl::linalg {
namespace {

/// c = a b or a b^T on many rows: b is laid out on the way, a panel as wide as a tile and as deep as stays in
/// L2, and all rows of a pass over it while the next panel is laid out (a b) or asked for (a b^T).
template <typename Arch>
struct ProductsByPanels {
  using Columns = ProductsOfColumns<Arch>;
  using Batch = typename Columns::Batch;
  static constexpr std::size_t lanes = Columns::lanes;
  static constexpr std::size_t cols = Columns::cols;
  static constexpr std::size_t depth_at_once = 384;

  /// A part of b, rows or columns of it as it is stored.
  struct Source {
    const float* data = nullptr;
    std::size_t depth = 0, count = 0;  // of the inner extent, of columns of c
  };

  /// Where a panel begins, in the order in which panels are passed over.
  struct Place {
    std::size_t inner = 0, col = 0;

    [[nodiscard]] Place next(const Product& p) const {
      return inner + depth_at_once < p.k ? Place{inner + depth_at_once, col} : Place{0, col + cols};
    }
  };

  static Source source(const Product& p, bool transposed, Place at) {
    if (at.col >= p.n) return {};
    const float* const data =
        transposed ? p.b + at.col * p.b_stride + at.inner : p.b + at.inner * p.b_stride + at.col;
    return {data, p.k - at.inner < depth_at_once ? p.k - at.inner : depth_at_once,
            p.n - at.col < cols ? p.n - at.col : cols};
  }

  /// All rows of a over the panel of a place, and `meanwhile` in each step.
  template <typename Meanwhile>
  static void pass(const Product& p, Place at, const Source& own, const float* panel, Meanwhile& meanwhile) {
    const std::size_t tiles = row_tiles(p);
    for (std::size_t t = 0; t < tiles; ++t) {
      const Part rows(p.m, t, tiles);
      Columns::tile_part(
          {own.depth, p.a + rows.first * p.a_stride + at.inner, p.a_stride, panel, cols,
           p.c + rows.first * p.c_stride + at.col, p.c_stride, p.alpha, p.accumulate || at.inner > 0},
          meanwhile, rows.count, 0, own.count);
    }
  }
  static std::size_t row_tiles(const Product& p) { return (p.m + Columns::rows - 1) / Columns::rows; }

  /// Lays out a panel of b [k, n], a row of it in every so many steps of the tiles of the panel before, and
  /// asks for a row that comes later: of this panel or of the one after it.
  struct LayOut {
    static constexpr std::size_t rows_ahead = 16;

    Source own, after;
    std::size_t stride;
    float* to;
    std::size_t every;
    std::size_t wait = every;
    std::size_t row = 0;

    LayOut(const Source& of, const Source& next, std::size_t b_stride, float* panel, std::size_t steps)
        : own(of), after(next), stride(b_stride), to(panel), every(of.count == cols ? steps / of.depth : 0) {}

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (--wait > 0) return;
      wait = every;
      if (row < own.depth) next_row();
    }

    [[gnu::always_inline]] void next_row() {
      const std::size_t ahead = row + rows_ahead;
      if (ahead < own.depth) {
        ask(own.data + ahead * stride);
      } else if (ahead - own.depth < after.depth) {
        ask(after.data + (ahead - own.depth) * stride);
      }
      const float* const from = own.data + row * stride;
      each<Columns::vectors>(
          [&](auto v) { Batch::load_unaligned(from + v * lanes).store_aligned(to + v * lanes); });
      to += cols;
      ++row;
    }

    /// For a row of the panel: where it begins inside a cache line, its last value is in one line more.
    [[gnu::always_inline]] static void ask(const float* from) {
      each<cols / 16>([&](auto i) { prefetch(from + i * 16); });
      prefetch(from + cols - 1);
    }

    /// What the steps left.
    void finish() {
      if (own.count == cols) {
        while (row < own.depth) next_row();
      } else {
        Columns::pack(own.data, stride, own.depth, own.count, to);
      }
    }
  };

  static void nn(const Product& p, float* room) {
    Place at;
    Source own = source(p, false, at);
    Source next = source(p, false, at.next(p));
    float* panel = room;
    float* other = room + cols * depth_at_once;
    LayOut(own, next, p.b_stride, panel, 0).finish();
    while (own.data != nullptr) {
      const Place following = at.next(p);
      const Source after = source(p, false, following.next(p));
      LayOut layout(next, after, p.b_stride, other, row_tiles(p) * own.depth);
      pass(p, at, own, panel, layout);
      layout.finish();
      at = following;
      own = next;
      next = after;
      float* const laid_out = other;
      other = panel;
      panel = laid_out;
    }
  }
  static_assert(2 * cols * depth_at_once <= gemm_room);

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

  /// Asks for a panel of b [n, k], a cache line of it in every so many steps of the tiles of the one before.
  struct Ask {
    Source next;
    std::size_t stride;
    std::size_t lines;  // of a row
    std::size_t every;
    std::size_t wait = every;
    std::size_t row = 0, line = 0;

    Ask(const Source& of, std::size_t b_stride, std::size_t steps)
        : next(of),
          stride(b_stride),
          lines(of.depth / 16),
          every(lines > 0 ? steps / (lines * of.count) : 0) {}

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (--wait > 0) return;
      wait = every;
      if (line < lines) next_line();
    }

    [[gnu::always_inline]] void next_line() {
      prefetch(next.data + row * stride + line * 16);
      if (++row < next.count) return;
      row = 0;
      ++line;
    }

    void finish() {
      while (line < lines) next_line();
    }
  };

  static void nt(const Product& p, float* room) {
    Place at;
    Source own = source(p, true, at);
    while (own.data != nullptr) {
      pack_transposed(own.data, p.b_stride, own.depth, own.count, room);
      const Place following = at.next(p);
      const Source next = source(p, true, following);
      Ask ask(next, p.b_stride, row_tiles(p) * own.depth);
      pass(p, at, own, room, ask);
      ask.finish();
      at = following;
      own = next;
    }
  }
};

}  // namespace
}  // namespace attnctl::linalg
