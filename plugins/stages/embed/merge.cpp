#include "merge.hpp"

#include <cmath>

namespace kinora::embed {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Normalises to norm 1; zeros stay zeros.
std::vector<double> unit(std::span<const float> row) {
  std::vector<double> out(row.begin(), row.end());
  const double length = std::sqrt(dot(out, out));
  if (length > 0)
    for (double& v : out) v /= length;
  return out;
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  const double lengths = std::sqrt(dot(a, a) * dot(b, b));
  return lengths > 0 ? dot(a, b) / lengths : 0;
}

}  // namespace

Merged merge(const FloatArray& rows, MergeRule rule, double threshold) {
  Merged out;
  std::vector<double> before = unit(rows.row(0));  // sum over the run, whose direction is that of the mean
  for (int64_t i = 1; i < rows.rows(); ++i) {
    auto now = unit(rows.row(i));
    const double similarity = cosine(before, now);
    const bool seen = dot(before, before) > 0 && dot(now, now) > 0;
    out.similarity.push_back(similarity);
    out.joined.push_back(seen && similarity >= threshold);
    if (rule == MergeRule::running && out.joined.back())
      for (size_t d = 0; d < now.size(); ++d) now[d] += before[d];
    before = std::move(now);
  }
  return out;
}

FloatArray joined_rows(const FloatArray& rows, const std::vector<bool>& joined) {
  FloatArray out;
  const auto width = static_cast<size_t>(rows.columns());
  std::vector<double> sum(width);
  for (int64_t i = 0; i < rows.rows(); ++i) {
    const auto now = unit(rows.row(i));
    for (size_t d = 0; d < width; ++d) sum[d] += now[d];
    if (i + 1 < rows.rows() && joined[static_cast<size_t>(i)]) continue;
    const double length = std::sqrt(dot(sum, sum));
    for (const double v : sum) out.values.push_back(static_cast<float>(length > 0 ? v / length : 0));
    sum.assign(width, 0);
  }
  out.shape = {static_cast<int64_t>(width ? out.values.size() / width : 0), static_cast<int64_t>(width)};
  return out;
}

}  // namespace kinora::embed
