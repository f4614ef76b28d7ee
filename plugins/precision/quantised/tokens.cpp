#include "plugins/precision/quantised/tokens.hpp"

#include <algorithm>
#include <numeric>

namespace kinora::quantised {
namespace {

void append(std::vector<Run>& to, const Run& next) {
  if (to.empty() || to.back().row + to.back().count != next.row ||
      to.back().index + to.back().count != next.index)
    to.push_back(next);
  else
    to.back().count += next.count;
}

}  // namespace

Tokens tokens_of(const std::vector<int64_t>& index) {
  Tokens out;
  out.rows = static_cast<int64_t>(index.size());
  out.order.resize(index.size());
  std::iota(out.order.begin(), out.order.end(), 0);
  std::erase_if(out.order, [&](int64_t row) { return index[static_cast<size_t>(row)] < 0; });
  std::stable_sort(out.order.begin(), out.order.end(), [&](int64_t a, int64_t b) {
    return index[static_cast<size_t>(a)] < index[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < out.order.size(); ++i) {
    const int64_t row = out.order[i], token = index[static_cast<size_t>(row)];
    append(out.runs, {row, token, 1});
    append(out.stretches, {static_cast<int64_t>(i), token, 1});
  }
  return out;
}

std::vector<SampleTokens> samples_of(const std::vector<int64_t>& index, const std::vector<int64_t>& sample,
                                     const std::vector<int64_t>& first) {
  std::vector<SampleTokens> out(first.size() - 1);
  std::vector<std::vector<int64_t>> places(out.size());
  for (size_t row = 0; row < index.size(); ++row) {
    if (index[row] < 0) continue;
    const auto of = static_cast<size_t>(sample[row]);
    out.at(of).rows.push_back(static_cast<int64_t>(row));
    places[of].push_back(index[row] - first[of]);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].tokens = tokens_of(places[i]);
    out[i].length = first[i + 1] - first[i];
  }
  return out;
}

std::string cut_tile(const Tokens& tokens, int64_t tile, int64_t length) {
  for (const Run& s : tokens.stretches) {
    const int64_t end = s.index + s.count;
    if (s.index % tile == 0 && (end % tile == 0 || end == length)) continue;
    return "tokens " + std::to_string(s.index) + " to " + std::to_string(end - 1);
  }
  return "";
}

std::string size_without_cuts(int64_t tile, int64_t frame, int64_t ranks, int64_t tensor_ranks) {
  const int64_t unit = tile * tensor_ranks, all = unit * ranks;
  const auto suits = [&](int64_t some) { return ranks % some == 0 && frame % (unit * some) == 0; };
  int64_t most = ranks - 1;
  while (most > 1 && !suits(most)) --most;
  if (frame == 0 || frame % all == 0) return "1 rank of a sequence";
  if (most > 1) return std::to_string(most) + " ranks of a sequence";
  return "a frame of " + std::to_string((frame / all + 1) * all) + " tokens instead of " +
         std::to_string(frame);
}

}  // namespace kinora::quantised
