#pragma once

#include "linalg/kernels/gemm_kernels.hpp"
#include "linalg/kernels/gemm_nn_impl.hpp"
#include "linalg/kernels/gemm_tools.hpp"

namespace attnctl::linalg {
namespace {

/// c = a b or a b^T on many rows: b is laid out on the way, a panel as wide as a tile and as deep as stays in
/// L2, and all rows of a pass over it. In the steps of their sums, which keep little but the multipliers
/// busy, the next panel is laid out and the one after it asked for.
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
    const bool last = at.inner + own.depth == p.k;
    const float* const bias = last && p.bias != nullptr ? p.bias + at.col : nullptr;
    for (std::size_t t = 0; t < tiles; ++t) {
      const Part rows(p.m, t, tiles);
      Columns::tile_part(
          {own.depth, p.a + rows.first * p.a_stride + at.inner, p.a_stride, panel, cols,
           p.c + rows.first * p.c_stride + at.col, p.c_stride, p.alpha, p.accumulate || at.inner > 0, bias},
          meanwhile, rows.count, 0, own.count);
    }
  }
  static std::size_t row_tiles(const Product& p) { return (p.m + Columns::rows - 1) / Columns::rows; }

  /// Which of the steps of a pass do a share of other work, evenly; none where there are fewer than shares: a
  /// wait of 0 does not end.
  struct Turns {
    std::size_t every;
    std::size_t wait = every;

    Turns(std::size_t steps, std::size_t shares) : every(shares > 0 ? steps / shares : 0) {}
    [[gnu::always_inline]] bool come() {
      if (--wait > 0) return false;
      wait = every;
      return true;
    }
  };

  /// What is laid out: a panel of b, and the one after it, which is asked for at the end.
  struct Layout {
    Source own, after;
    std::size_t stride;
    float* to;
    std::size_t steps;  // of the pass meanwhile
  };

  /// Lays out a panel of b [k, n] in the steps of a pass over another: a row at a time, and asks for a later.
  struct RowByRow {
    static constexpr bool transposed = false;
    static constexpr std::size_t rows_ahead = 16;

    Layout layout;
    Turns turns;
    std::size_t row = 0;

    explicit RowByRow(const Layout& l) : layout(l), turns(l.steps, l.own.count == cols ? l.own.depth : 0) {}

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (turns.come() && row < layout.own.depth) next();
    }

    [[gnu::always_inline]] void next() {
      const std::size_t ahead = row + rows_ahead;
      if (ahead < layout.own.depth) {
        ask(layout.own.data + ahead * layout.stride);
      } else if (ahead - layout.own.depth < layout.after.depth) {
        ask(layout.after.data + (ahead - layout.own.depth) * layout.stride);
      }
      const float* const from = layout.own.data + row * layout.stride;
      float* const to = layout.to + row * cols;
      each<Columns::vectors>(
          [&](auto v) { Batch::load_unaligned(from + v * lanes).store_aligned(to + v * lanes); });
      ++row;
    }

    /// For a row of the panel: where it begins inside a cache line, its last value is in one line more.
    [[gnu::always_inline]] static void ask(const float* from) {
      each<cols / 16>([&](auto i) { prefetch(from + i * 16); });
      prefetch(from + cols - 1);
    }

    /// What the steps left.
    void finish() {
      const Source& own = layout.own;
      if (own.count != cols) return Columns::pack(own.data, layout.stride, own.depth, own.count, layout.to);
      while (row < own.depth) next();
    }
  };

  /// Lays out a panel of b [n, k] likewise: so many values of one row of b at a time, each to a row of the
  /// panel.
  struct PieceByPiece {
    static constexpr bool transposed = true;
    static constexpr std::size_t piece = 16;
    static constexpr std::size_t rows_ahead = 32;  // of b

    Layout layout;
    Turns turns;
    std::size_t inner = 0, row = 0;

    explicit PieceByPiece(const Layout& l)
        : layout(l), turns(l.steps, is_whole(l.own) ? l.own.depth / piece * cols : 0) {}

    static bool is_whole(const Source& source) { return source.count == cols && source.depth % piece == 0; }

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (turns.come() && inner < layout.own.depth) next();
    }

    [[gnu::always_inline]] void next() {
      if (row + rows_ahead < cols) {
        ask(layout.own.data + (row + rows_ahead) * layout.stride + inner);
      } else if (inner + piece < layout.own.depth) {
        ask(layout.own.data + (row + rows_ahead - cols) * layout.stride + inner + piece);
      } else if (row + rows_ahead - cols < layout.after.count) {
        ask(layout.after.data + (row + rows_ahead - cols) * layout.stride);
      }
      const float* const from = layout.own.data + row * layout.stride + inner;
      float* const to = layout.to + inner * cols + row;
      each<piece>([&](auto i) { to[i * cols] = from[i]; });
      if (++row < cols) return;
      row = 0;
      inner += piece;
    }

    [[gnu::always_inline]] static void ask(const float* from) {
      prefetch(from);
      prefetch(from + piece - 1);
    }

    void finish() {
      const Source& own = layout.own;
      if (inner == 0 && row == 0)
        return Columns::pack_transposed(own.data, layout.stride, own.depth, own.count, layout.to);
      while (inner < own.depth) next();
    }
  };

  template <typename LayOut>
  static void multiply(const Product& p, float* room) {
    float* panel = room;
    float* other = room + cols * depth_at_once;
    Place at;
    Source own = source(p, LayOut::transposed, at);
    Source next = source(p, LayOut::transposed, at.next(p));
    LayOut({own, next, p.b_stride, panel, 0}).finish();
    while (own.data != nullptr) {
      const Place following = at.next(p);
      const Source after = source(p, LayOut::transposed, following.next(p));
      LayOut meanwhile({next, after, p.b_stride, other, row_tiles(p) * own.depth});
      pass(p, at, own, panel, meanwhile);
      meanwhile.finish();
      at = following;
      own = next;
      next = after;
      float* const laid_out = other;
      other = panel;
      panel = laid_out;
    }
  }
  static void nn(const Product& p, float* room) { multiply<RowByRow>(p, room); }
  static void nt(const Product& p, float* room) { multiply<PieceByPiece>(p, room); }

  static_assert(2 * cols * depth_at_once <= gemm_room);
};

}  // namespace
}  // namespace attnctl::linalg
