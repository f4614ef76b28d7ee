#include "plugins/jobs/training/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr const char* kOperands[KINORA_OPERANDS] = {"activations", "weights", "gradients"};
constexpr int64_t kNumbers = sizeof(kinora_rounding_sums) / sizeof(double);

json figures_of(const kinora_rounding_sums& s) {
  if (s.values == 0) return nullptr;
  const double sqnr = s.noise > 0 ? 10 * std::log10(s.signal / s.noise) : INFINITY;
  return {{"sqnr", std::isfinite(sqnr) ? json(sqnr) : json()},
          {"clipped", s.clipped / s.values},
          {"underflowed", s.underflowed / s.values}};
}

}  // namespace

RoundingMeter::RoundingMeter(Network& network, const Parallelism& parallel) : parallel_(parallel) {
  const kinora_context* head = network.chain().head();
  api_ = static_cast<const kinora_rounding*>(
      head->get_interface(head->self, KINORA_INTERFACE_ROUNDING, KINORA_ABI_MINOR));
}

void RoundingMeter::measure(bool on) {
  if (!api_ || on == measures_) return;
  check(api_->measure(api_->self, on));
  measures_ = on;
}

void RoundingMeter::begin_step(int64_t step, bool measured) {
  next_ = step;
  measure(measured || table_.empty());
}

json RoundingMeter::state() const { return {{"step", step_}, {"layers", table_}}; }

void RoundingMeter::restore(const json& state) {
  const json layers = state.is_object() ? state.value("layers", json()) : json();
  if (!layers.is_array() || !std::all_of(layers.begin(), layers.end(), [](const json& row) {
        return row.is_object() && row.contains("layer");
      }))
    return;
  table_ = layers;
  step_ = state.value("step", int64_t{0});
}

void RoundingMeter::end_step(json& line) {
  if (!measures_) return;
  std::vector<std::string> names;
  std::vector<double> numbers;
  for (int64_t i = 0;; ++i) {
    const char* name = nullptr;
    kinora_rounding_sums sums[KINORA_OPERANDS] = {};
    const int32_t status = api_->layer(api_->self, i, &name, sums);
    if (status == KINORA_ERROR_NOT_FOUND) break;
    check(status);
    names.emplace_back(name);
    const auto* first = reinterpret_cast<const double*>(sums);
    numbers.insert(numbers.end(), first, first + KINORA_OPERANDS * kNumbers);
  }
  measure(false);
  if (names.empty()) return;
  const at::Tensor all =
      Group<at::Tensor>(&parallel_.group("world")).sum(at::tensor(numbers, at::kDouble)).contiguous();
  const auto* at = all.data_ptr<double>();
  json table = json::array();
  std::map<std::string, std::pair<double, int64_t>> means;
  for (const auto& name : names) {
    json row{{"layer", name}};
    bool is_run = false;
    for (const char* operand : kOperands) {
      kinora_rounding_sums sums{};
      std::memcpy(&sums, at, sizeof sums);
      at += kNumbers;
      row[operand] = figures_of(sums);
      if (row[operand].is_null()) continue;
      is_run = true;
      for (const auto& [figure, value] : row[operand].items()) {
        if (!value.is_number()) continue;
        auto& [sum, count] = means[figure + "_" + operand];
        sum += value.get<double>(), ++count;
      }
    }
    if (is_run) table.push_back(std::move(row));
  }
  if (!table.empty()) {  // after the precision's `until` nothing is rounded
    table_ = std::move(table);
    step_ = next_;
  }
  for (const auto& [name, mean] : means) line[name] = mean.first / static_cast<double>(mean.second);
}

}  // namespace kinora::core
