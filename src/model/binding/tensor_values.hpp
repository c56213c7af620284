#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "checkpoint/checkpoint.hpp"
#include "model/binding/binding.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Elements of a tensor that are read before the memory behind them is given back.
inline constexpr std::size_t piece_elements = std::size_t{1} << 22U;

/// Keeps what views point to. What no holding keeps any more is given back to the system.
using Holding = std::vector<std::shared_ptr<const void>>;

/// Tensors of a checkpoint as float32: borrowed where they are stored so, else converted; each once, as long
/// as some holding keeps it. The first use of a tensor warns of values that are not finite
/// (`non_finite_weight`).
class TensorValues {
 public:
  struct Kept {
    std::span<const float> values;
    std::shared_ptr<const void> owner;
  };

  TensorValues(Checkpoint& weights, Warnings& warnings) : weights_(&weights), warnings_(&warnings) {}

  /// Converts on the pool, where there is one.
  [[nodiscard]] Kept values(std::size_t tensor, Pool* pool);
  /// [heads, in, k] as [in, heads k].
  [[nodiscard]] Kept in_out_of_heads(const BoundMatrix& bound, Pool* pool);

  struct Table {
    LookupTable table;
    std::shared_ptr<const void> owner;
  };
  /// Its memory is given back behind the check: rows are read where they are looked up.
  [[nodiscard]] Table table(std::size_t tensor, Pool* pool);

 private:
  struct Loan;
  struct Floats;

  std::shared_ptr<const Loan> borrow(std::size_t tensor);
  std::shared_ptr<const Floats> convert_all(std::size_t tensor, const Loan& loan, Pool* pool);
  void warn(std::size_t tensor, const TensorView& view, std::size_t count);

  Checkpoint* weights_;
  Warnings* warnings_;
  std::map<std::size_t, std::weak_ptr<const Loan>> loans_;  // by tensor
  std::map<std::size_t, std::weak_ptr<const Floats>> converted_;
  std::map<std::size_t, std::weak_ptr<const Floats>> rearranged_;
  std::set<std::size_t> checked_;
};

/// Reads one part of a model; what its views point to goes into a holding.
class WeightReader {
 public:
  WeightReader(TensorValues& values, Holding& holding, Pool* pool)
      : values_(values), holding_(holding), pool_(pool) {}

  [[nodiscard]] Linear linear(const BoundLinear& bound);
  [[nodiscard]] NormWeights norm(const BoundNorm& bound);
  /// A matrix of so many columns.
  [[nodiscard]] MatrixView<const float> columns(const BoundVector& bound, std::size_t count);
  [[nodiscard]] std::span<const float> vector(const BoundVector& bound);
  [[nodiscard]] LookupTable table(std::size_t tensor);

 private:
  StoredMatrix matrix(const BoundMatrix& bound);
  TensorValues::Kept hold(TensorValues::Kept kept, const Slices& slices);
  std::span<const float> joined(const std::vector<BoundVector>& parts, float offset);
  std::vector<float>& keep(std::size_t size);

  TensorValues& values_;
  Holding& holding_;
  Holding gathered_from_;
  Pool* pool_;
};

}  // namespace attnctl
