// Small dense linear programs: max c.x with A x <= b and x >= 0, all b >= 0.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

namespace kinora::balance {

struct LinearProgram {
  std::vector<std::vector<double>> a;
  std::vector<double> b, c;

  struct Solution {
    std::vector<double> x;      // value of each variable
    std::vector<double> price;  // for each row: the dual solution, at least 0
    bool bounded = true;
  };
  // Simplex method (Dantzig's rule). Rows should be scaled so that b is about 1.
  Solution solve() const;
};

namespace detail {

// Rows: constraints with their slacks; the last row is the objective. The last column is b.
class Tableau {
 public:
  explicit Tableau(const LinearProgram& lp) : m_(lp.a.size()), n_(lp.c.size()), width_(n_ + m_ + 1) {
    cells_.resize((m_ + 1) * width_);
    for (size_t i = 0; i < m_; ++i) {
      std::copy(lp.a[i].begin(), lp.a[i].end(), row(i));
      row(i)[n_ + i] = 1;
      // Adds a little slack of a different size to each row: without it many steps would make no progress and
      // could cycle.
      row(i)[width_ - 1] = lp.b[i] + 1e-6 * (1 + std::fmod(0.618034 * static_cast<double>(i + 1), 1.0));
      basis_.push_back(n_ + i);
    }
    for (size_t j = 0; j < n_; ++j) row(m_)[j] = -lp.c[j];
  }
  bool run() {
    for (int step = 0; step < 5000; ++step) {
      size_t in = width_, out = m_;
      for (size_t j = 0; j + 1 < width_; ++j)
        if (row(m_)[j] < -kZero && (in == width_ || row(m_)[j] < row(m_)[in])) in = j;
      if (in == width_) return true;
      for (size_t i = 0; i < m_; ++i)
        if (row(i)[in] > kZero &&
            (out == m_ || row(i)[width_ - 1] / row(i)[in] < row(out)[width_ - 1] / row(out)[in]))
          out = i;
      if (out == m_) return false;
      pivot(in, out);
    }
    return true;
  }
  LinearProgram::Solution solution(bool bounded) {
    LinearProgram::Solution out{std::vector<double>(n_), std::vector<double>(m_), bounded};
    for (size_t i = 0; i < m_; ++i) {
      if (basis_[i] < n_) out.x[basis_[i]] = std::max(0.0, row(i)[width_ - 1]);
      out.price[i] = std::max(0.0, row(m_)[n_ + i]);  // in the columns of the slacks
    }
    return out;
  }

 private:
  static constexpr double kZero = 1e-10;
  double* row(size_t i) { return cells_.data() + i * width_; }
  void pivot(size_t in, size_t out) {
    double* from = row(out);
    const double by = from[in];
    for (size_t j = 0; j < width_; ++j) from[j] /= by;
    for (size_t i = 0; i <= m_; ++i) {
      const double factor = row(i)[in];
      if (i == out || factor == 0) continue;
      for (size_t j = 0; j < width_; ++j) row(i)[j] -= factor * from[j];
    }
    basis_[out] = in;
  }
  size_t m_, n_, width_;
  std::vector<double> cells_;
  std::vector<size_t> basis_;
};

}  // namespace detail

inline LinearProgram::Solution LinearProgram::solve() const {
  detail::Tableau tableau(*this);
  const bool bounded = tableau.run();
  return tableau.solution(bounded);
}

}  // namespace kinora::balance
