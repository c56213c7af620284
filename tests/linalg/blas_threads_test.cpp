#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"
#include "support/long_way.hpp"

namespace attnctl {
namespace {

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST_CASE("BLAS and LAPACK start no threads of their own, in whichever thread they are called") {
  long_way::Normal normal(3);
  const OwnedMatrix<double> a = normal.matrix(400, 300);
  const OwnedMatrix<double> b = normal.matrix(400, 300);
  Pool pool(3);
  const std::ptrdiff_t before = threads_of_this_process();
  std::vector<std::ptrdiff_t> during(12);
  pool.run(during.size(), [&](std::size_t task, std::size_t) {
    OwnedMatrix<double> product(400, 400);
    gemm_nt(a.view(), b.view(), product.view());
    OwnedMatrix<double> left = a;
    OwnedMatrix<double> right = b;
    (void)svd_of_product(left.view().row_range(0, 64), right.view().row_range(0, 64), 64);
    (void)singular_values(std::as_const(product).view().col_range(0, 100));
    during[task] = threads_of_this_process();
  });
  for (const std::ptrdiff_t threads : during) CHECK(threads == before);
}

}  // namespace
}  // namespace attnctl
