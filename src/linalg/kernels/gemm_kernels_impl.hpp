#pragma once

#include "linalg/kernels/gemm_kernels.hpp"
#include "linalg/kernels/gemm_nn_impl.hpp"
#include "linalg/kernels/gemm_nt_impl.hpp"
#include "linalg/kernels/gemm_panels_impl.hpp"

// The kernels of linalg/gemm_kernels.hpp for one instruction set. Registers hold a tile of c while the inner
// extent is run through (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008);
// what differs is that b is laid out anew for many rows alone.

namespace attnctl::linalg {
namespace {

template <typename Arch>
constexpr GemmKernels gemm_table(std::string_view name, std::size_t nt_rows, std::size_t nn_rows) {
  using Rows = ProductsOfRows<Arch>;
  using Columns = ProductsOfColumns<Arch>;
  GemmKernels table{
      name,          Rows::multiply, Columns::multiply,        nullptr, nullptr, Columns::panels,
      Columns::cols, Columns::pack,  Columns::pack_transposed, nt_rows, nn_rows};
  if constexpr (Columns::lanes == 16) {
    table.nt_many = ProductsByPanels<Arch>::nt;
    table.nn_many = ProductsByPanels<Arch>::nn;
  }
  return table;
}

}  // namespace
}  // namespace attnctl::linalg
