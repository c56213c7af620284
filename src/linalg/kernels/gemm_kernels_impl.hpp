#pragma once

#include "linalg/kernels/gemm_tiles_impl.hpp"
#include "linalg/kernels/kernels.hpp"

// The GemmKernels of kernels.hpp for one instruction set. Registers hold a tile of c during the loop over k
// (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). The tiles have the
// usual names: c[mr, nr], a[mr, kc], b[kc, nr].

namespace attnctl::linalg {
namespace {

/// The kernels for many rows: c = a b and c = a b^T. Packs b in panels [kc, nr] that fit into L2, and
/// multiplies all rows of a by each panel. While a panel is multiplied, some steps of the loop also pack a
/// part of the next panel and prefetch the parts to pack after it.
template <typename Arch>
struct PackingKernel {
  using Columns = NnKernel<Arch>;
  using Batch = typename Columns::Batch;
  static constexpr std::size_t kLanes = Columns::kLanes;
  static constexpr std::size_t kNr = Columns::kNr;
  static constexpr std::size_t kKc = 384;

  /// The part of b that becomes one panel. `data` is its first element in b; null after the last panel.
  struct PanelSource {
    const float* data = nullptr;
    std::size_t depth = 0, count = 0;  // number of rows along k, number of columns along n
  };

  /// The position of a panel in b. next() returns the position of the panel that is multiplied next.
  struct Place {
    std::size_t inner = 0, col = 0;

    [[nodiscard]] Place next(const Product& p) const {
      return inner + kKc < p.k ? Place{inner + kKc, col} : Place{0, col + kNr};
    }
  };

  static PanelSource source(const Product& p, bool transposed, Place at) {
    if (at.col >= p.n) return {};
    const float* const data =
        transposed ? p.b + at.col * p.b_stride + at.inner : p.b + at.inner * p.b_stride + at.col;
    return {data, p.k - at.inner < kKc ? p.k - at.inner : kKc, p.n - at.col < kNr ? p.n - at.col : kNr};
  }

  /// Multiplies all rows of a by one panel. Calls `step` once per step of the tiles.
  template <typename Step>
  static void pass(const Product& p, Place at, const PanelSource& own, const float* panel, Step& step) {
    const std::size_t tiles = row_tiles(p);
    const bool last = at.inner + own.depth == p.k;
    const float* const bias = last && p.bias != nullptr ? p.bias + at.col : nullptr;
    for (std::size_t t = 0; t < tiles; ++t) {
      const Slice rows(p.m, t, tiles);
      Columns::tile_part(
          {own.depth, p.a + rows.first * p.a_stride + at.inner, p.a_stride, panel, kNr,
           p.c + rows.first * p.c_stride + at.col, p.c_stride, p.alpha, p.accumulate || at.inner > 0, bias},
          step, rows.count, 0, own.count);
    }
  }
  static std::size_t row_tiles(const Product& p) { return (p.m + Columns::kMr - 1) / Columns::kMr; }

  /// Distributes `shares` pieces of other work evenly over the steps of a pass. is_due() is called once per
  /// step and returns whether the step does a piece: never if there are fewer steps than pieces.
  struct Turns {
    std::size_t every;
    std::size_t wait = every;

    Turns(std::size_t steps, std::size_t shares) : every(shares > 0 ? steps / shares : 0) {}
    [[gnu::always_inline]] bool is_due() {
      if (--wait > 0) return false;
      wait = every;
      return true;
    }
  };

  /// A panel to pack, and the panel after it, whose beginning is prefetched at the end.
  struct Job {
    PanelSource own, after;
    std::size_t stride;
    float* to;
    std::size_t steps;  // number of steps of the pass during which the panel is packed
  };

  /// Packs a panel of b [k, n] while another one is multiplied, one row per turn. Prefetches later rows.
  struct RowByRow {
    static constexpr bool kTransposed = false;
    static constexpr std::size_t kRowsAhead = 16;

    Job job;
    Turns turns;
    std::size_t row = 0;

    explicit RowByRow(const Job& l) : job(l), turns(l.steps, l.own.count == kNr ? l.own.depth : 0) {}

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (turns.is_due() && row < job.own.depth) next();
    }

    [[gnu::always_inline]] void next() {
      const std::size_t ahead = row + kRowsAhead;
      if (ahead < job.own.depth) {
        prefetch_row(job.own.data + ahead * job.stride);
      } else if (ahead - job.own.depth < job.after.depth) {
        prefetch_row(job.after.data + (ahead - job.own.depth) * job.stride);
      }
      const float* const from = job.own.data + row * job.stride;
      float* const to = job.to + row * kNr;
      unroll<Columns::kVectors>(
          [&](auto v) { Batch::load_unaligned(from + v * kLanes).store_aligned(to + v * kLanes); });
      ++row;
    }

    /// Prefetches a row of the panel. A row that is not aligned uses one more cache line.
    [[gnu::always_inline]] static void prefetch_row(const float* from) {
      unroll<kNr / 16>([&](auto i) { prefetch(from + i * 16); });
      prefetch(from + kNr - 1);
    }

    /// Packs the rows that are not packed yet.
    void finish() {
      const PanelSource& own = job.own;
      if (own.count != kNr) return Columns::pack(own.data, job.stride, own.depth, own.count, job.to);
      while (row < own.depth) next();
    }
  };

  /// Packs a panel of b^T from b [n, k] while another panel is multiplied. Each turn packs kPiece values of a
  /// row of b; each value belongs to a different row of the panel.
  struct PieceByPiece {
    static constexpr bool kTransposed = true;
    static constexpr std::size_t kPiece = 16;
    static constexpr std::size_t kRowsAhead = 32;  // counted in rows of b

    Job job;
    Turns turns;
    std::size_t inner = 0, row = 0;

    explicit PieceByPiece(const Job& l)
        : job(l), turns(l.steps, is_whole(l.own) ? l.own.depth / kPiece * kNr : 0) {}

    static bool is_whole(const PanelSource& source) {
      return source.count == kNr && source.depth % kPiece == 0;
    }

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (turns.is_due() && inner < job.own.depth) next();
    }

    [[gnu::always_inline]] void next() {
      if (row + kRowsAhead < kNr) {
        prefetch_row(job.own.data + (row + kRowsAhead) * job.stride + inner);
      } else if (inner + kPiece < job.own.depth) {
        prefetch_row(job.own.data + (row + kRowsAhead - kNr) * job.stride + inner + kPiece);
      } else if (row + kRowsAhead - kNr < job.after.count) {
        prefetch_row(job.after.data + (row + kRowsAhead - kNr) * job.stride);
      }
      const float* const from = job.own.data + row * job.stride + inner;
      float* const to = job.to + inner * kNr + row;
      unroll<kPiece>([&](auto i) { to[i * kNr] = from[i]; });
      if (++row < kNr) return;
      row = 0;
      inner += kPiece;
    }

    [[gnu::always_inline]] static void prefetch_row(const float* from) {
      prefetch(from);
      prefetch(from + kPiece - 1);
    }

    void finish() {
      const PanelSource& own = job.own;
      if (inner == 0 && row == 0)
        return Columns::pack_transposed(own.data, job.stride, own.depth, own.count, job.to);
      while (inner < own.depth) next();
    }
  };

  template <typename Packer>
  static void multiply(const Product& p, float* workspace) {
    float* panel = workspace;
    float* other = workspace + kNr * kKc;
    Place at;
    PanelSource own = source(p, Packer::kTransposed, at);
    PanelSource next = source(p, Packer::kTransposed, at.next(p));
    Packer({own, next, p.b_stride, panel, 0}).finish();
    while (own.data != nullptr) {
      const Place following = at.next(p);
      const PanelSource after = source(p, Packer::kTransposed, following.next(p));
      Packer step({next, after, p.b_stride, other, row_tiles(p) * own.depth});
      pass(p, at, own, panel, step);
      step.finish();
      at = following;
      own = next;
      next = after;
      float* const packed = other;
      other = panel;
      panel = packed;
    }
  }
  static void nn(const Product& p, float* workspace) { multiply<RowByRow>(p, workspace); }
  static void nt(const Product& p, float* workspace) { multiply<PieceByPiece>(p, workspace); }

  static_assert(2 * kNr * kKc <= kGemmWorkspace);
};

/// Returns the kernels of one instruction set.
template <typename Arch>
constexpr GemmKernels gemm_table(std::string_view name, std::size_t nt_rows, std::size_t nn_rows) {
  using Nt = NtKernel<Arch>;
  using Nn = NnKernel<Arch>;
  GemmKernels table{name,    Nt::multiply, Nn::multiply,        nullptr, nullptr, Nn::panels,
                    Nn::kNr, Nn::pack,     Nn::pack_transposed, nt_rows, nn_rows};
  if constexpr (Nn::kLanes == 16) {
    table.nt_many = PackingKernel<Arch>::nt;
    table.nn_many = PackingKernel<Arch>::nn;
  }
  return table;
}

}  // namespace
}  // namespace attnctl::linalg
