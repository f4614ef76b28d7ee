#include <cmath>
#include <vector>

#include "kernels/cpu/gelu.hpp"
#include "kernels/cpu/modulate.hpp"
#include "kernels/cpu/norm_rope.hpp"

namespace kinora::reference {
namespace {

// Standardises n numbers: minus their mean, divided by their standard deviation.
std::vector<double> normalised(int64_t n, double epsilon, const double* x, double& rate) {
  double mean = 0, variance = 0;
  for (int64_t c = 0; c < n; ++c) mean += x[c] / static_cast<double>(n);
  for (int64_t c = 0; c < n; ++c) variance += (x[c] - mean) * (x[c] - mean) / static_cast<double>(n);
  rate = 1 / std::sqrt(variance + epsilon);
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t c = 0; c < n; ++c) out[c] = (x[c] - mean) * rate;
  return out;
}

// The two numbers of pair i.
std::pair<int64_t, int64_t> pair_of(const Turn& turn, int64_t i, int64_t size) {
  return turn.neighbours ? std::pair(2 * i, 2 * i + 1) : std::pair(i, i + size / 2);
}

std::vector<double> turned(const Turn& turn, int64_t token, int64_t size, const double* x, double way) {
  std::vector<double> y(x, x + size);
  for (int64_t i = 0; turn.cos && i < size / 2; ++i) {
    const auto [a, b] = pair_of(turn, i, size);
    const double c = turn.cos[token * (size / 2) + i], s = way * turn.sin[token * (size / 2) + i];
    y[a] = x[a] * c - x[b] * s;
    y[b] = x[a] * s + x[b] * c;
  }
  return y;
}

double rate_of(int64_t n, double epsilon, const double* x) {
  double mean = 0;
  for (int64_t c = 0; c < n; ++c) mean += x[c] * x[c] / static_cast<double>(n);
  return 1 / std::sqrt(mean + epsilon);
}

}  // namespace

void modulate_forward(const RowShape& n, double epsilon, const double* x, const double* shift,
                      const double* scale, double* y) {
  for (int64_t r = 0; r < n.count; ++r) {
    double rate = 0;
    const auto h = normalised(n.width, epsilon, x + r * n.width, rate);
    for (int64_t c = 0; c < n.width; ++c)
      y[r * n.width + c] = h[c] * (1 + scale[r * n.width + c]) + shift[r * n.width + c];
  }
}

// dh_j / dx_c = rate (delta_jc - 1/D - h_j h_c / D)
void modulate_backward(const RowShape& n, double epsilon, const double* grad, const double* x,
                       const double* scale, double* grad_x, double* grad_scale) {
  for (int64_t r = 0; r < n.count; ++r) {
    const double *g = grad + r * n.width, *s = scale + r * n.width;
    double rate = 0;
    const auto h = normalised(n.width, epsilon, x + r * n.width, rate);
    for (int64_t c = 0; c < n.width; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < n.width; ++j)
        sum += g[j] * (1 + s[j]) * ((j == c) - (1 + h[j] * h[c]) / static_cast<double>(n.width));
      grad_x[r * n.width + c] = rate * sum;
      grad_scale[r * n.width + c] = g[c] * h[c];
    }
  }
}

void norm_rope_forward(const HeadShape& n, double epsilon, const double* x, const double* weight,
                       const Turn& turn, double* y) {
  for (int64_t i = 0; i < n.tokens * n.heads; ++i) {
    std::vector<double> h(x + i * n.size, x + (i + 1) * n.size);
    const double rate = rate_of(n.size, epsilon, h.data());
    for (int64_t c = 0; weight && c < n.size; ++c) h[c] *= rate * weight[c];
    h = turned(turn, i / n.heads, n.size, h.data(), 1);
    for (int64_t c = 0; c < n.size; ++c) y[i * n.size + c] = h[c];
  }
}

// d(x_j rate) / dx_c = rate (delta_jc - x_j x_c rate^2 / d)
void norm_rope_backward(const HeadShape& n, double epsilon, const double* grad, const double* x,
                        const double* weight, const Turn& turn, double* grad_x, double* grad_weight) {
  for (int64_t c = 0; weight && c < n.size; ++c) grad_weight[c] = 0;
  for (int64_t i = 0; i < n.tokens * n.heads; ++i) {
    const double* in = x + i * n.size;
    const auto g = turned(turn, i / n.heads, n.size, grad + i * n.size, -1);
    const double rate = rate_of(n.size, epsilon, in);
    for (int64_t c = 0; c < n.size; ++c) {
      double sum = 0;
      for (int64_t j = 0; weight && j < n.size; ++j)
        sum += g[j] * weight[j] * ((j == c) - in[j] * in[c] * rate * rate / static_cast<double>(n.size));
      grad_x[i * n.size + c] = weight ? rate * sum : g[c];
      if (weight) grad_weight[c] += g[c] * in[c] * rate;
    }
  }
}

double gelu(Gelu form, double x) {
  if (form == Gelu::exact) return 0.5 * x * std::erfc(-x * M_SQRT1_2);
  return 0.5 * x * (1 + std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(Gelu form, double x) {
  if (form == Gelu::exact)
    return 0.5 * std::erfc(-x * M_SQRT1_2) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
  const double t = std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(M_2_PI) * (1 + 3 * 0.044715 * x * x);
}

}  // namespace kinora::reference
