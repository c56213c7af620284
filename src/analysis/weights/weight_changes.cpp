#include "analysis/weights/weight_changes.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

/// 2 |b - a| / (|a| + |b|), given |b - a|, |a| and |b|.
double relative_change(double difference, double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(difference) || !std::isfinite(sum) || sum == 0) return kUndefined;
  return 2 * difference / sum;
}

// The precision with which values are stored.

/// A floating-point format: its smallest number of full precision, and its step from 1 to the next number.
struct FloatFormat {
  double smallest, step;
};
constexpr FloatFormat kF32{0x1p-126, 0x1p-23}, kF16{0x1p-14, 0x1p-10}, kBf16{0x1p-126, 0x1p-7};

/// Returns the difference from x to the next number of a format.
double step_near(float x, FloatFormat format) {
  constexpr std::uint32_t exponent = 0x7F800000U, largest = 0x7F000000U;  // masks of x and of 2^127
  const auto power = std::bit_cast<float>(std::min(std::bit_cast<std::uint32_t>(x) & exponent, largest));
  return std::max(double{power}, format.smallest) * format.step;
}
bool is_f16(float x) {
  constexpr float largest = 65504;
  if (!(std::abs(x) <= largest)) return false;
  const double steps = double{x} / step_near(x, kF16);
  return static_cast<double>(static_cast<std::int64_t>(steps)) == steps;
}
bool is_bf16(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0xFFFFU) == 0;
}

constexpr std::size_t kBlock = 16;  // divides the blocks of all quantized types
constexpr double kMostSteps = 255;

/// Returns the smallest difference of two values of a block if all differences are multiples of it, up to
/// rounding to float32, and none is more than kMostSteps times as large. Returns 0 if all values are equal,
/// otherwise nullopt.
std::optional<double> step_of_block(std::span<const float> block) {
  std::array<float, kBlock> sorted{};
  std::ranges::copy(block, sorted.begin());
  std::ranges::sort(sorted);
  const double range = double{sorted.back()} - double{sorted.front()};
  if (!std::isfinite(range)) return std::nullopt;
  if (range == 0) return 0;
  const double largest = std::max(std::abs(double{sorted.front()}), std::abs(double{sorted.back()}));
  const double error = 4 * largest * double{std::numeric_limits<float>::epsilon()};
  double gap = range;
  for (std::size_t i = 1; i < kBlock; ++i) {
    const double here = double{sorted[i]} - double{sorted[i - 1]};
    if (here > error) gap = std::min(gap, here);
  }
  // The smallest gap may be several steps.
  for (int parts = 1;; ++parts) {
    const double steps = std::round(range / (gap / parts));
    if (steps > kMostSteps) break;
    const double step = range / steps;
    if (error > step / 50) break;
    const bool all = std::ranges::all_of(sorted, [&](float value) {
      const double place = (double{value} - double{sorted.front()}) / step;
      return std::abs(place - std::round(place)) < 0.02;
    });
    if (all) return step;
  }
  return std::nullopt;
}

enum class Precision { f32, f16, bf16, blocks };

/// The rows of a weight in float32: the outputs of a matrix, the rows of a table, or a vector as one row.
struct Rows {
  std::size_t rows = 0, cols = 0;
  std::function<void(std::size_t first, MatrixView<float> to)> read = {};  // writes rows from `first` on
  MatrixView<const float> stored = {};  // the weight, if it need not be converted
  bool transposed = false;              // `stored` has the rows as columns
};

constexpr std::size_t kTile = 32;  // rows that are read together
std::size_t tiles_of(const Rows& weight) {
  return (weight.rows + kTile - 1) / kTile;
}
/// Returns a tile. Reads it into `room`, which grows as needed, if the weight is not stored in this way.
MatrixView<const float> tile_of(const Rows& weight, std::size_t tile, std::vector<float>& room) {
  const std::size_t rows = std::min(kTile, weight.rows - tile * kTile);
  if (weight.stored.data != nullptr && !weight.transposed) return weight.stored.row_range(tile * kTile, rows);
  room.resize(std::max(room.size(), rows * weight.cols));
  const MatrixView<float> values{room.data(), rows, weight.cols, weight.cols};
  weight.read(tile * kTile, values);
  return values;
}

/// The threads of the pool, each with room for a tile of both models.
struct Workers {
  struct Room {
    std::vector<float> a, b;
  };
  Pool& pool;
  std::vector<Room> rooms;

  explicit Workers(Pool& threads) : pool(threads), rooms(threads.size()) {}
};

Precision precision_of(const Rows& weight, Workers& workers) {
  std::atomic<bool> f16 = true, bf16 = true, blocks = weight.cols % kBlock == 0;
  workers.pool.run(tiles_of(weight), [&](std::size_t tile, std::size_t worker) {
    if (!f16 && !bf16 && !blocks) return;
    const MatrixView<const float> values = tile_of(weight, tile, workers.rooms[worker].a);
    for (std::size_t r = 0; r < values.rows && (f16 || bf16 || blocks); ++r) {
      const std::span<const float> row = values.row(r);
      if (f16 && !std::ranges::all_of(row, is_f16)) f16 = false;
      if (bf16 && !std::ranges::all_of(row, is_bf16)) bf16 = false;
      for (std::size_t c = 0; blocks && c < row.size(); c += kBlock)
        if (!step_of_block(row.subspan(c, kBlock))) blocks = false;
    }
  });
  return bf16 ? Precision::bf16 : f16 ? Precision::f16 : blocks ? Precision::blocks : Precision::f32;
}

/// Writes the largest rounding errors of a row. They are half a step; in a block, also the error of its scale
/// and of its smallest value, which are float16 numbers, and two steps at the ends, which may be cut off.
void rounding_errors(Precision precision, std::span<const float> row, std::span<double> errors) {
  if (precision != Precision::blocks) {
    const FloatFormat format = precision == Precision::f16    ? kF16
                               : precision == Precision::bf16 ? kBf16
                                                              : kF32;
    for (std::size_t c = 0; c < row.size(); ++c) errors[c] = step_near(row[c], format) / 2;
    return;
  }
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock) {
    const std::span<const float> block = row.subspan(begin, kBlock);
    const auto [low, high] = std::ranges::minmax(block);
    const double step = step_of_block(block).value_or(0);
    const double largest = std::max(std::abs(double{low}), std::abs(double{high}));
    for (std::size_t i = 0; i < kBlock; ++i)
      errors[begin + i] = step * (block[i] == low || block[i] == high ? 2 : 0.5) + std::ldexp(largest, -10);
  }
}

/// The precisions with which two weights are stored, and the rounding errors of a row of each.
class Rounding {
 public:
  Rounding(Precision of_a, Precision of_b) : of_a_(of_a), of_b_(of_b) {}

  /// Returns whether rounding can change numbers. It does not change numbers that are stored with this
  /// precision already. But float32 numbers can be computed in another order, and blocks can have other
  /// grids.
  [[nodiscard]] bool changes_numbers() const {
    return of_a_ != of_b_ || of_a_ == Precision::f32 || of_a_ == Precision::blocks;
  }
  [[nodiscard]] bool has_blocks() const { return of_a_ == Precision::blocks || of_b_ == Precision::blocks; }

  /// Writes the largest differences of two rows that rounding can cause. Returns the sum of the variances of
  /// the rounding errors. A part of a row must have whole blocks.
  double errors(std::span<const float> a, std::span<const float> b, std::span<double> largest) const {
    rounding_errors(of_a_, a, largest);
    double variances = 0;
    for (double& error : largest) variances += error * error / 3;
    std::array<double, kBlock> of_b{};
    for (std::size_t begin = 0; begin < b.size(); begin += kBlock) {
      const std::span<double> part = std::span(of_b).first(std::min(kBlock, b.size() - begin));
      rounding_errors(of_b_, b.subspan(begin, part.size()), part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        variances += part[i] * part[i] / 3;
        largest[begin + i] += part[i];
      }
    }
    return variances;
  }

 private:
  Precision of_a_, of_b_;
};

/// The largest status of each row and of each column.
struct Statuses {
  std::vector<ChangeStatus> rows, cols;

  Statuses(std::size_t row_count, std::size_t col_count)
      : rows(row_count, ChangeStatus::identical), cols(col_count, ChangeStatus::identical) {}
};

/// Returns whether two numbers differ in a bit and are not both 0.
bool differ(float x, float y) {
  const auto a = std::bit_cast<std::uint32_t>(x), b = std::bit_cast<std::uint32_t>(y);
  return ((a ^ b) != 0) & (((a | b) << 1U) != 0);  // without jumps
}

bool all_equal(const Rows& a, const Rows& b, Workers& workers) {
  std::atomic<bool> equal = true;
  workers.pool.run(tiles_of(a), [&](std::size_t tile, std::size_t worker) {
    if (!equal) return;
    Workers::Room& room = workers.rooms[worker];
    const MatrixView<const float> x = tile_of(a, tile, room.a), y = tile_of(b, tile, room.b);
    for (std::size_t r = 0; r < x.rows; ++r)
      if (!std::ranges::equal(x.row(r), y.row(r), std::not_fn(differ))) equal = false;
  });
  return equal;
}

/// The differences of the rows of one tile.
struct TileChange {
  std::uint64_t elements = 0;
  double squares = 0, squares_a = 0, squares_b = 0;  // of b - a, a and b
  double largest = 0;
  Statuses statuses{0, 0};

  /// Adds the elements of two rows. Returns whether one of them differs.
  bool add(std::span<const float> a, std::span<const float> b) {
    std::uint32_t count = 0;
    for (std::size_t c = 0; c < a.size(); ++c) count += static_cast<std::uint32_t>(differ(a[c], b[c]));
    constexpr std::size_t lanes = 4;  // independent sums, which the processor computes in parallel
    std::array<double, lanes> of_a{}, of_b{}, changes{}, most{};
    const auto element = [&](std::size_t lane, std::size_t place) {
      const double x = double{a[place]}, y = double{b[place]}, change = y - x;
      of_a[lane] += x * x;
      of_b[lane] += y * y;
      changes[lane] += change * change;
      most[lane] = std::max(most[lane], std::abs(change));
    };
    std::size_t c = 0;
    for (; c + lanes <= a.size(); c += lanes)
      for (std::size_t lane = 0; lane < lanes; ++lane) element(lane, c + lane);
    for (; c < a.size(); ++c) element(0, c);
    const auto sum = [](const std::array<double, lanes>& sums) {
      return sums[0] + sums[1] + (sums[2] + sums[3]);
    };
    squares_a += sum(of_a);
    squares_b += sum(of_b);
    if (count == 0) return false;
    elements += count;
    squares += sum(changes);
    largest = std::isfinite(squares) ? std::max(largest, std::ranges::max(most)) : kUndefined;
    return true;
  }
};

/// Compares the rows of two tiles.
TileChange change_of(MatrixView<const float> a, MatrixView<const float> b, const Rounding& rounding) {
  TileChange result;
  Statuses& statuses = result.statuses = Statuses(a.rows, a.cols);
  std::vector<std::uint8_t> done((a.cols + kBlock - 1) / kBlock);  // parts whose columns are all `changed`
  for (std::size_t r = 0; r < a.rows; ++r) {
    if (!result.add(a.row(r), b.row(r))) continue;
    for (std::size_t part = 0; part < done.size(); ++part) {
      if (statuses.rows[r] == ChangeStatus::changed && done[part] != 0) continue;
      const std::size_t first = part * kBlock, count = std::min(kBlock, a.cols - first);
      const std::span<const float> x = a.row(r).subspan(first, count), y = b.row(r).subspan(first, count);
      std::array<double, kBlock> errors{};
      if (rounding.changes_numbers()) rounding.errors(x, y, std::span(errors).first(count));
      done[part] = 1;
      for (std::size_t i = 0; i < count; ++i) {
        ChangeStatus& of_column = statuses.cols[first + i];
        if (differ(x[i], y[i])) {
          const bool small = std::abs(double{y[i]} - double{x[i]}) <= errors[i];
          const ChangeStatus found = small ? ChangeStatus::rounding : ChangeStatus::changed;
          statuses.rows[r] = std::max(statuses.rows[r], found);
          of_column = std::max(of_column, found);
        }
        if (of_column != ChangeStatus::changed) done[part] = 0;
      }
    }
  }
  return result;
}

/// Returns whether b - a may have a rank of at most kLargestLowRank, up to rounding errors: a part of it then
/// has no more, so that its other singular values are rounding errors too. The part is small, so that most
/// changes are recognised in little time.
bool may_have_low_rank(const Rows& a, const Rows& b, const Rounding& rounding, Workers::Room& room) {
  constexpr std::size_t sampled = 128;
  if (std::min(a.rows, a.cols) <= sampled) return true;
  OwnedMatrix<double> part(sampled, sampled);
  std::vector<double> errors(a.cols);
  double noise = 0;  // of the rows of the part
  for (std::size_t i = 0; i < sampled / kTile; ++i) {
    const std::size_t tile = i * (a.rows / kTile) / (sampled / kTile);
    const MatrixView<const float> x = tile_of(a, tile, room.a), y = tile_of(b, tile, room.b);
    for (std::size_t r = 0; r < kTile; ++r) {
      noise += rounding.errors(x.row(r), y.row(r), errors);
      for (std::size_t c = 0; c < sampled; ++c) {
        const std::size_t from = c * a.cols / sampled;
        part(i * kTile + r, c) = double{y(r, from)} - double{x(r, from)};
      }
    }
  }
  const std::vector<double> values = linalg::singular_values(part.view());
  const double share = static_cast<double>(sampled) / static_cast<double>(a.cols);
  const double rest = norm(std::span(values).subspan(kLargestLowRank));
  return rest * rest <= 16 * noise * share;
}

/// Returns the rank of b - a if it is at most kLargestLowRank up to rounding errors.
std::optional<std::size_t> low_rank(const Rows& a, const Rows& b, const Rounding& rounding,
                                    Workers& workers) {
  if (!may_have_low_rank(a, b, rounding, workers.rooms.front())) return std::nullopt;
  OwnedMatrix<double> difference(a.rows, a.cols);
  std::vector<double> variances(tiles_of(a));
  workers.pool.run(tiles_of(a), [&](std::size_t tile, std::size_t worker) {
    Workers::Room& room = workers.rooms[worker];
    const MatrixView<const float> x = tile_of(a, tile, room.a), y = tile_of(b, tile, room.b);
    std::vector<double> errors(a.cols);
    for (std::size_t r = 0; r < x.rows; ++r) {
      variances[tile] += rounding.errors(x.row(r), y.row(r), errors);
      for (std::size_t c = 0; c < x.cols; ++c)
        difference(tile * kTile + r, c) = double{y(r, c)} - double{x(r, c)};
    }
  });
  // The singular values of a matrix of independent errors are at most about this large (Marchenko and
  // Pastur).
  const double noise = std::accumulate(variances.begin(), variances.end(), 0.0);
  const auto rows = static_cast<double>(a.rows), cols = static_cast<double>(a.cols);
  const double edge = 2 * std::sqrt(noise / (rows * cols)) * (std::sqrt(rows) + std::sqrt(cols));
  const linalg::LeadingValues found = linalg::leading_singular_values(difference.view(), kLargestLowRank);
  const auto above = static_cast<std::size_t>(
      std::ranges::count_if(found.values, [&](double value) { return value > edge; }));
  if (above == 0 || above >= kLargestLowRank || found.rest * found.rest > 4 * noise) return std::nullopt;
  return above;
}

/// Exchanges rows and columns of two weights if both are stored in this way, so that nothing has to be
/// copied.
bool exchange(Rows& a, Rows& b) {
  for (const Rows* each : {&a, &b})
    if (each->stored.data == nullptr || !each->transposed) return false;
  for (Rows* each : {&a, &b}) {
    std::swap(each->rows, each->cols);
    each->transposed = false;
  }
  return true;
}

Statuses compare_rows(Rows a, Rows b, bool matrix, WeightChange& result, Workers& workers) {
  const Rows given_a = a, given_b = b;
  bool exchanged = exchange(a, b);
  if (all_equal(a, b, workers)) return {given_a.rows, given_a.cols};
  const Rounding rounding(precision_of(given_a, workers), precision_of(given_b, workers));
  if (exchanged && rounding.has_blocks()) {  // blocks are parts of rows
    a = given_a;
    b = given_b;
    exchanged = false;
  }
  std::vector<TileChange> tiles(tiles_of(a));
  workers.pool.run(tiles.size(), [&](std::size_t tile, std::size_t worker) {
    Workers::Room& room = workers.rooms[worker];
    tiles[tile] = change_of(tile_of(a, tile, room.a), tile_of(b, tile, room.b), rounding);
  });
  Statuses statuses(a.rows, a.cols);
  TileChange all;
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    const TileChange& each = tiles[tile];
    all.elements += each.elements;
    all.squares += each.squares;
    all.squares_a += each.squares_a;
    all.squares_b += each.squares_b;
    if (!std::isnan(all.largest))
      all.largest = std::isnan(each.largest) ? kUndefined : std::max(each.largest, all.largest);
    std::ranges::copy(each.statuses.rows, statuses.rows.begin() + static_cast<std::ptrdiff_t>(tile * kTile));
    for (std::size_t c = 0; c < a.cols; ++c)
      statuses.cols[c] = std::max(statuses.cols[c], each.statuses.cols[c]);
  }
  result.elements = all.elements;
  result.largest = all.largest;
  result.change = relative_change(std::sqrt(all.squares), std::sqrt(all.squares_a), std::sqrt(all.squares_b));
  result.status = std::ranges::max(statuses.rows);
  if (matrix && result.status == ChangeStatus::changed && std::isfinite(all.squares))
    result.rank = low_rank(a, b, rounding, workers);
  if (exchanged) std::swap(statuses.rows, statuses.cols);
  return statuses;
}

Rows rows_of(const model::StoredMatrix& matrix, std::vector<std::size_t> order = {}) {
  const MatrixView<const float> values = matrix.values;
  const bool by_rows = matrix.orientation == model::Orientation::out_in;
  const MatrixView<const float> stored = order.empty() ? values : MatrixView<const float>{};
  return {matrix.out(), matrix.in(),
          [values, by_rows, order = std::move(order)](std::size_t first, MatrixView<float> to) {
            std::array<std::size_t, kTile> from{};
            for (std::size_t r = 0; r < to.rows; ++r)
              from.at(r) = order.empty() ? first + r : order[first + r];
            if (by_rows) {
              for (std::size_t r = 0; r < to.rows; ++r)
                std::ranges::copy(values.row(from.at(r)), to.row(r).begin());
              return;
            }
            for (std::size_t c = 0; c < to.cols; ++c) {
              for (std::size_t r = 0; r < to.rows; ++r) to(r, c) = values(c, from[r]);
            }
          },
          stored, !by_rows};
}
Rows rows_of(std::span<const float> vector, std::vector<std::size_t> order = {}) {
  return {1, vector.size(), [vector, order = std::move(order)](std::size_t, MatrixView<float> to) {
            for (std::size_t c = 0; c < to.cols; ++c) to(0, c) = vector[order.empty() ? c : order[c]];
          }};
}
Rows rows_of(MatrixView<const float> table) {
  return {.rows = table.rows, .cols = table.cols, .stored = table};
}
Rows rows_of(const model::LookupTable& table) {
  if (!table.present()) return {};
  return {table.rows(), table.width(), [&table](std::size_t first, MatrixView<float> to) {
            for (std::size_t r = 0; r < to.rows; ++r) table.row(first + r, to.row(r));
          }};
}

/// Returns the dimensions of a head in the order that they have with RotaryPairing::half.
std::vector<std::size_t> half_order(const model::AttentionConfig& config) {
  std::vector<std::size_t> order(config.d_head);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (config.rotary == nullptr || config.rotary->pairing == model::RotaryPairing::half) return order;
  const std::size_t pairs = config.rotary->dims / 2;
  for (std::size_t j = 0; j < pairs; ++j) {
    order[j] = 2 * j;
    order[j + pairs] = 2 * j + 1;
  }
  return order;
}

/// Returns half_order() for each of `slices` heads, one after another.
std::vector<std::size_t> order_of_outputs(const model::AttentionConfig& config, std::size_t slices) {
  const std::vector<std::size_t> head = half_order(config);
  std::vector<std::size_t> order;
  for (std::size_t slice = 0; slice < slices; ++slice) {
    for (const std::size_t dimension : head) order.push_back(slice * config.d_head + dimension);
  }
  return order;
}

/// Compares the weights of both models in the order of the model.
class WeightComparer {
 public:
  WeightComparer(const model::Model& a, const model::Model& b, Pool& pool) : a_(a), b_(b), workers_(pool) {}

  /// The largest status of each slice of a projection in a layer, by projection.
  using SliceStatus = std::array<std::vector<ChangeStatus>, kAllProjections.size()>;

  void embedding(const model::EmbeddingWeights& a, const model::EmbeddingWeights& b,
                 const std::string& prefix) {
    const std::optional<std::size_t> none;
    add(prefix + "token embedding", none, rows_of(a.token), rows_of(b.token), false);
    add(prefix + "position embedding", none, rows_of(a.position), rows_of(b.position), false);
    add(prefix + "token type embedding", none, rows_of(a.token_type), rows_of(b.token_type), false);
    add(prefix + "class token", none, rows_of(a.class_token), rows_of(b.class_token), false);
    norm(prefix + "embedding norm", none, a.norm, b.norm);
    linear(prefix + "embedding projection", none, a.projection, b.projection);
    linear(prefix + "patches", none, a.patches, b.patches);
  }

  [[nodiscard]] SliceStatus layer(std::size_t index, const model::LayerWeights& a,
                                  const model::LayerWeights& b) {
    const model::AttentionConfig& of_a = a_.config().layers[index].attention;
    const model::AttentionConfig& of_b = b_.config().layers[index].attention;
    SliceStatus slices;
    const auto projection = [&](Projection which, const model::Linear& x, const model::Linear& y) {
      const bool output = which == Projection::output;
      const bool rotated = which == Projection::query || which == Projection::key;
      const std::size_t width = rotated ? of_a.d_head : of_a.d_value;
      const std::size_t count = which == Projection::query ? of_a.query_slices()
                                : output                   ? of_a.heads
                                                           : of_a.kv_heads;
      std::vector<ChangeStatus>& status = slices.at(static_cast<std::size_t>(which));
      status.assign(count, ChangeStatus::identical);
      // Merges the statuses of rows or columns, whose slices have `width` of them.
      const auto merge = [&](const std::vector<ChangeStatus>& found) {
        for (std::size_t i = 0; i < found.size(); ++i)
          status.at(i / width) = std::max(status.at(i / width), found[i]);
      };
      std::vector<std::size_t> order_a, order_b;
      if (rotated && of_a.rotary != nullptr && of_b.rotary != nullptr &&
          of_a.rotary->pairing != of_b.rotary->pairing) {
        order_a = order_of_outputs(of_a, count);
        order_b = order_of_outputs(of_b, count);
      }
      constexpr std::array kNames = {"query", "key", "value", "output"};
      const std::string name = kNames.at(static_cast<std::size_t>(which));
      if (x.factorised() || y.factorised()) {
        // The slices of a product of two matrices are compared as circuits, not as elements.
        for (const Statuses& found :
             {add(name + ".first", index, rows_of(x.first), rows_of(y.first), true),
              add(name + ".last", index, rows_of(x.last()), rows_of(y.last()), true)}) {
          const ChangeStatus all =
              found.rows.empty() ? ChangeStatus::identical : std::ranges::max(found.rows);
          for (ChangeStatus& slice : status) slice = std::max(slice, all);
        }
      } else if (x.present() && y.present()) {
        const Statuses found = add(name, index, rows_of(x.last(), order_a), rows_of(y.last(), order_b), true);
        merge(output ? found.cols : found.rows);
      }
      const Statuses bias =
          add(name + ".bias", index, rows_of(x.bias, order_a), rows_of(y.bias, order_b), false);
      if (!output) merge(bias.cols);
    };
    projection(Projection::query, a.query, b.query);
    projection(Projection::key, a.key, b.key);
    projection(Projection::value, a.value, b.value);
    projection(Projection::output, a.output, b.output);
    norm("query norm", index, a.query_norm, b.query_norm);
    norm("key norm", index, a.key_norm, b.key_norm);
    add("relative positions", index, rows_of(a.relative_bias), rows_of(b.relative_bias), false);
    add("sinks", index, rows_of(a.sinks), rows_of(b.sinks), false);
    add("distances", index, rows_of(a.disentangled.table), rows_of(b.disentangled.table), false);
    norm("distance norm", index, a.disentangled.norm, b.disentangled.norm);
    linear("distance key", index, a.disentangled.key, b.disentangled.key);
    linear("distance query", index, a.disentangled.query, b.disentangled.query);
    norm("attention norm", index, a.attention_norm, b.attention_norm);
    norm("attention output norm", index, a.attention_output_norm, b.attention_output_norm);
    norm("mlp norm", index, a.mlp_norm, b.mlp_norm);
    norm("mlp output norm", index, a.mlp_output_norm, b.mlp_output_norm);
    mlp("mlp", index, a.mlp, b.mlp);
    linear("router", index, a.router, b.router);
    for (std::size_t e = 0; e < std::min(a.experts.size(), b.experts.size()); ++e)
      mlp(fmt::format("expert {}", e), index, a.experts[e], b.experts[e]);
    mlp("shared expert", index, a.shared, b.shared);
    linear("shared expert factor", index, a.shared_factor, b.shared_factor);
    linear("convolution", index, a.convolution, b.convolution);
    norm("convolution norm", index, a.convolution_norm, b.convolution_norm);
    return slices;
  }

  /// `tied`: the output matrices of both models are their token embeddings, which have been compared.
  void head(const model::HeadWeights& a, const model::HeadWeights& b, bool tied) {
    const std::optional<std::size_t> none;
    linear("output projection", none, a.projection, b.projection);
    linear("output transform", none, a.transform, b.transform);
    norm("output transform norm", none, a.transform_norm, b.transform_norm);
    const auto table = [](const model::Linear& linear) {
      return linear.present() ? rows_of(linear.last()) : Rows{};
    };
    if (!tied) add("output matrix", none, table(a.decoder), table(b.decoder), false);
    add("output matrix.bias", none, rows_of(a.decoder.bias), rows_of(b.decoder.bias), false);
  }
  void norm(const std::string& name, std::optional<std::size_t> layer, const model::NormWeights& a,
            const model::NormWeights& b) {
    add(name + ".gain", layer, rows_of(a.gain), rows_of(b.gain), false);
    add(name + ".bias", layer, rows_of(a.bias), rows_of(b.bias), false);
  }

  [[nodiscard]] std::vector<WeightChange>& changes() { return changes_; }

 private:
  Statuses add(std::string name, std::optional<std::size_t> layer, const Rows& a, const Rows& b,
               bool matrix) {
    const auto size = [](const Rows& of) { return of.rows * of.cols; };
    if (size(a) == 0 && size(b) == 0) return {0, 0};
    if (a.rows != b.rows || a.cols != b.cols)
      fail(Status::bad_input, "{} and {}: {}{}: shapes [{}, {}] and [{}, {}]; need models of the same shape",
           escaped(a_.name()), escaped(b_.name()),
           layer ? "layer " + model::layer_name(a_.config(), *layer) + ": " : "", name, a.rows, a.cols,
           b.rows, b.cols);
    WeightChange& change = changes_.emplace_back();
    change.name = std::move(name);
    change.layer = layer;
    change.shape = matrix ? Shape{a.cols, a.rows} : a.rows == 1 ? Shape{a.cols} : Shape{a.rows, a.cols};
    return compare_rows(a, b, matrix, change, workers_);
  }
  void linear(const std::string& name, std::optional<std::size_t> layer, const model::Linear& a,
              const model::Linear& b) {
    const auto rows = [](const model::StoredMatrix& matrix) {
      return matrix.values.data == nullptr ? Rows{} : rows_of(matrix);
    };
    add(name + ".first", layer, rows(a.first), rows(b.first), true);
    add(name, layer, rows(a.last()), rows(b.last()), true);
    add(name + ".bias", layer, rows_of(a.bias), rows_of(b.bias), false);
  }
  void mlp(const std::string& name, std::size_t layer, const model::MlpWeights& a,
           const model::MlpWeights& b) {
    linear(name + ".up", layer, a.up, b.up);
    linear(name + ".gate", layer, a.gate, b.gate);
    linear(name + ".down", layer, a.down, b.down);
  }

  const model::Model& a_;
  const model::Model& b_;
  Workers workers_;
  std::vector<WeightChange> changes_;
};

/// Returns the Frobenius norm of a matrix a, given a a^T.
double norm_from(const OwnedMatrix<double>& squares) {
  double trace = 0;
  for (std::size_t i = 0; i < squares.rows(); ++i) trace += squares(i, i);
  return std::sqrt(trace);
}

/// The transposed part of a projection that belongs to a head [width, dimension].
struct HeadPart {
  OwnedMatrix<double> columns;
  OwnedMatrix<double> squares;                // columns columns^T
  double norm = 0;                            // Frobenius norm
  std::optional<linalg::RowFactors> factors;  // nullopt if a weight is not finite

  explicit HeadPart(OwnedMatrix<double> given)
      : columns(std::move(given)), squares(linalg::squares(columns.view())) {
    norm = norm_from(squares);
    if (linalg::all_finite(columns.values())) factors = linalg::row_factors(columns.view(), squares);
  }
};

/// The part of a head in both models, and products of the difference d = b - a. They are exactly 0 if nothing
/// changed.
struct PartPair {
  HeadPart a, b;
  OwnedMatrix<double> with_a;   // d a^T
  OwnedMatrix<double> squares;  // d d^T
  double norm = 0;              // Frobenius norm of d

  PartPair(OwnedMatrix<double> of_a, OwnedMatrix<double> of_b) : a(std::move(of_a)), b(std::move(of_b)) {
    OwnedMatrix<double> difference = b.columns;
    for (std::size_t i = 0; i < a.columns.values().size(); ++i)
      difference.values()[i] -= a.columns.values()[i];
    with_a = linalg::product_nt(difference.view(), a.columns.view());
    squares = linalg::squares(difference.view());
    norm = norm_from(squares);
  }
};

/// Returns the singular values of left^T right.
std::vector<double> spectrum_of(const HeadPart& left, const HeadPart& right) {
  return linalg::singular_values(linalg::product_tn(left.factors->t.view(), right.factors->t.view()).view());
}

/// Returns the change of a circuit from A = l^T r to B = (l + p)^T (r + q): B - A = p^T (r + q) + l^T q. Its
/// square is the sum of the products of p p^T with (r + q) (r + q)^T, of l l^T with q q^T, and twice that of
/// p l^T with (r + q) q^T, element by element.
CircuitChange circuit_change(const PartPair& left, const PartPair& right) {
  CircuitChange result;
  for (const PartPair* pair : {&left, &right})
    if (!pair->a.factors || !pair->b.factors) return result;
  const std::vector<double> a = spectrum_of(left.a, right.a), b = spectrum_of(left.b, right.b);
  double squares = dot(left.squares.values(), right.b.squares.values()) +
                   dot(left.a.squares.values(), right.squares.values());
  for (std::size_t i = 0; i < left.with_a.rows(); ++i) {
    for (std::size_t j = 0; j < left.with_a.cols(); ++j)
      squares += 2 * left.with_a(i, j) * (right.squares(i, j) + right.with_a(j, i));
  }
  std::vector<double> difference(a.size());
  std::ranges::transform(b, a, difference.begin(), std::minus());
  result.change = relative_change(std::sqrt(std::max(0.0, squares)), norm(a), norm(b));
  result.spectrum = relative_change(norm(difference), norm(a), norm(b));
  result.rank_a = linalg::effective_rank(a);
  result.rank_b = linalg::effective_rank(b);
  return result;
}

ProjectionChange projection_change(const PartPair& pair) {
  const HeadPart &a = pair.a, &b = pair.b;
  ProjectionChange result;
  result.change = relative_change(pair.norm, a.norm, b.norm);
  if (!a.factors || !b.factors) return result;
  result.rank_a = a.factors->rank;
  result.rank_b = b.factors->rank;
  if (pair.norm == 0)
    result.angles.assign(*result.rank_a, 0.0);
  else if (a.factors->inverse.rows() > 0 && b.factors->inverse.rows() > 0)
    result.angles = linalg::principal_angles(*a.factors, *b.factors, pair.with_a.view(), pair.squares.view());
  else
    result.angles = linalg::principal_angles(linalg::row_basis(a.columns.view(), *a.factors).view(),
                                             linalg::row_basis(b.columns.view(), *b.factors).view());
  return result;
}

/// Returns the transposed part of a projection that belongs to a head, with its dimensions in half_order().
OwnedMatrix<double> columns_of(const CircuitFactor& factor, const model::AttentionConfig& config,
                               Projection projection, std::size_t head) {
  OwnedMatrix<double> stored = factor.columns(head);
  const bool rotated = projection == Projection::query || projection == Projection::key;
  if (!rotated || config.rotary == nullptr || config.rotary->pairing == model::RotaryPairing::half)
    return stored;
  const std::vector<std::size_t> order = half_order(config);
  OwnedMatrix<double> columns(stored.rows(), stored.cols());
  for (std::size_t i = 0; i < order.size(); ++i)
    std::ranges::copy(stored.view().row(order[i]), columns.view().row(i).begin());
  return columns;
}

/// The factors of the projections of a layer in one model; nullopt for those that it does not have.
using LayerFactors = std::array<std::optional<CircuitFactor>, kAllProjections.size()>;

LayerFactors layer_factors(const model::Model& model, std::size_t layer) {
  LayerFactors factors;
  for (const Projection projection : kAllProjections)
    factors.at(static_cast<std::size_t>(projection)) = projection_factor(model, layer, projection, false);
  return factors;
}

/// Largest change of the circuits of a head that moved. It covers float16, bfloat16 and 8-bit blocks.
constexpr double kLargestOfMoved = 0.02;

void compare_head(const model::AttentionConfig& of_a, const LayerFactors& a,
                  const model::AttentionConfig& of_b, const LayerFactors& b, HeadChange& change) {
  std::array<std::optional<PartPair>, kAllProjections.size()> pairs;
  for (std::size_t p = 0; p < kAllProjections.size(); ++p) {
    if (!a.at(p) || !b.at(p)) continue;
    pairs.at(p).emplace(columns_of(*a.at(p), of_a, kAllProjections.at(p), change.head.head),
                        columns_of(*b.at(p), of_b, kAllProjections.at(p), change.other.head));
    change.projections.at(p) = projection_change(*pairs.at(p));
  }
  if (pairs[0] && pairs[1]) change.qk = circuit_change(*pairs[0], *pairs[1]);
  if (pairs[2] && pairs[3]) change.ov = circuit_change(*pairs[2], *pairs[3]);
}

}  // namespace

std::string_view name_of(ChangeStatus status) {
  constexpr std::array<std::string_view, 5> kNames = {"identical", "rounding", "changed", "moved",
                                                      "changed_role"};
  return kNames.at(static_cast<std::size_t>(status));
}

std::optional<std::string> shape_difference(const model::Model& a, const model::Model& b) {
  std::optional<std::string> found;
  const auto compare = [&](const std::string& what, std::size_t in_a, std::size_t in_b) {
    if (!found && in_a != in_b) found = fmt::format("{}: {} and {}", what, in_a, in_b);
  };
  const model::ModelConfig& of_a = a.config();
  const model::ModelConfig& of_b = b.config();
  compare("numbers of layers", of_a.layers.size(), of_b.layers.size());
  compare("widths of the residual stream", of_a.d_model, of_b.d_model);
  for (std::size_t i = 0; i < std::min(of_a.layers.size(), of_b.layers.size()); ++i) {
    const model::AttentionConfig& x = of_a.layers[i].attention;
    const model::AttentionConfig& y = of_b.layers[i].attention;
    const std::string layer = "layer " + model::layer_name(of_a, i) + ": ";
    compare(layer + "numbers of heads", x.heads, y.heads);
    compare(layer + "numbers of key/value heads", x.kv_heads, y.kv_heads);
    compare(layer + "widths of a head", x.d_head, y.d_head);
    compare(layer + "widths of the values of a head", x.d_value, y.d_value);
  }
  return found;
}

ModelChanges compare_weights(const model::Model& a, const model::Model& b,
                             const forward::Selection& selection, Pool& pool,
                             std::span<const model::HeadId> partners) {
  if (const auto difference = shape_difference(a, b))
    fail(Status::bad_input,
         "{} and {}: {}; to compare the weights, both models need the same shape; with --input CORPUS, their "
         "behaviour is compared",
         escaped(a.name()), escaped(b.name()), *difference);
  ModelChanges changes;
  WeightComparer comparer(a, b, pool);
  comparer.embedding(*a.embedding(), *b.embedding(), "");
  if (a.config().decoder && b.config().decoder)
    comparer.embedding(*a.target_embedding(), *b.target_embedding(), "decoder ");
  for (std::size_t layer = 0; layer < a.config().layers.size(); ++layer) {
    const model::AttentionConfig& attention = a.config().layers[layer].attention;
    WeightComparer::SliceStatus slices;
    {
      const auto weights_a = a.layer(layer, &pool), weights_b = b.layer(layer, &pool);
      slices = comparer.layer(layer, *weights_a, *weights_b);
    }
    const std::size_t first = changes.heads.size();
    std::map<std::size_t, LayerFactors> factors_b;  // by layer
    for (std::size_t i = 0; i < selection.heads.size(); ++i) {
      const model::HeadId head = selection.heads[i];
      if (head.layer != layer) continue;
      HeadChange& change = changes.heads.emplace_back();
      change.head = head;
      change.other = partners.empty() ? head : partners[i];
      if (!factors_b.contains(change.other.layer))
        factors_b.emplace(change.other.layer, layer_factors(b, change.other.layer));
      const std::array places = {attention.query_slice(head.head), attention.kv_head(head.head),
                                 attention.kv_head(head.head), head.head};
      for (std::size_t p = 0; p < slices.size(); ++p)
        if (places.at(p) < slices.at(p).size())
          change.status = std::max(change.status, slices.at(p)[places.at(p)]);
    }
    {
      const LayerFactors factors_a = layer_factors(a, layer);
      pool.run(changes.heads.size() - first, [&](std::size_t task, std::size_t /*worker*/) {
        HeadChange& change = changes.heads[first + task];
        compare_head(attention, factors_a, b.config().layers[change.other.layer].attention,
                     factors_b.at(change.other.layer), change);
        if (change.other == change.head) return;
        const double largest = std::max(change.qk.change, change.ov ? change.ov->change : 0.0);
        change.status = largest <= kLargestOfMoved ? ChangeStatus::moved : ChangeStatus::changed;
      });
    }
    for (const model::Model* model : {&a, &b}) {
      for (const auto& [used, factors] : factors_b) model->evict_layer(used);
      model->evict_layer(layer);
    }
  }
  const auto none = std::optional<std::size_t>();
  if (a.config().decoder && b.config().decoder)
    comparer.norm("encoder norm", none, a.encoder_norm(), b.encoder_norm());
  comparer.norm("final norm", none, a.final_norm(), b.final_norm());
  if (a.config().head.present && b.config().head.present)
    comparer.head(*a.head(&pool), *b.head(&pool), a.config().head.tied && b.config().head.tied);
  changes.weights = std::move(comparer.changes());
  return changes;
}

}  // namespace attnctl::analysis
