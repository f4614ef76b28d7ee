#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/attention.hpp"

namespace kinora::reference {
namespace {

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<double> probabilities(const AttentionShape& n, const double* q, const double* k) {
  std::vector<double> p(static_cast<size_t>(n.keys));
  for (int64_t j = 0; j < n.keys; ++j) p[j] = n.scale * dot(q, k + j * n.size, n.size);
  const double most = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - most);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

void attention_forward(const AttentionShape& n, const double* q, const double* k, const double* v,
                       double* out) {
  std::fill(out, out + n.queries * n.size, 0);
  for (int64_t i = 0; i < n.queries; ++i) {
    const auto p = probabilities(n, q + i * n.size, k);
    for (int64_t j = 0; j < n.keys; ++j)
      for (int64_t c = 0; c < n.size; ++c) out[i * n.size + c] += p[j] * v[j * n.size + c];
  }
}

void attention_backward(const AttentionShape& n, const double* q, const double* k, const double* v,
                        const double* grad, double* grad_q, double* grad_k, double* grad_v) {
  std::fill(grad_q, grad_q + n.queries * n.size, 0);
  std::fill(grad_k, grad_k + n.keys * n.size, 0);
  std::fill(grad_v, grad_v + n.keys * n.size, 0);
  for (int64_t i = 0; i < n.queries; ++i) {
    const double *q_i = q + i * n.size, *g_i = grad + i * n.size;
    const auto p = probabilities(n, q_i, k);
    double mean = 0;
    for (int64_t j = 0; j < n.keys; ++j) mean += p[j] * dot(g_i, v + j * n.size, n.size);
    for (int64_t j = 0; j < n.keys; ++j) {
      const double of_score = n.scale * p[j] * (dot(g_i, v + j * n.size, n.size) - mean);
      for (int64_t c = 0; c < n.size; ++c) {
        grad_v[j * n.size + c] += p[j] * g_i[c];
        grad_q[i * n.size + c] += of_score * k[j * n.size + c];
        grad_k[j * n.size + c] += of_score * q_i[c];
      }
    }
  }
}

}  // namespace kinora::reference
