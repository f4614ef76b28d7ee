#include "apps/planner/cluster.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/suggest.hpp"

namespace kinora::core::plan {
namespace {

// Vendors' data sheets: SXM modules, dense BF16, NVLink one way, one network card per GPU (400 Gbit/s; A100:
// 200). CPU cores: values typical of a desktop, until `kinora plan --calibrate` has measured them.
const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> all{
      {"A100", 312e12, 80 * 1.0737e9, 2.04e12, 300e9, 25e9, 108},
      {"H100", 989.4e12, 80 * 1.0737e9, 3.35e12, 450e9, 50e9, 132},
      {"H200", 989.4e12, 141e9, 4.8e12, 450e9, 50e9, 132},
      {"B200", 2250e12, 180e9, 7.7e12, 900e9, 50e9, 148},
      {"GB200", 2500e12, 186e9, 8e12, 900e9, 50e9, 148},
      {"cpu", 50e9, 8e9, 10e9, 2e9, 1e9, 0},
  };
  return all;
}

bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

// Removes a number from 1 to a million and the 'x' after it from the front.
bool take(std::string_view& text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || out < 1 || out > 1000000 || end == text.data() + text.size() || *end != 'x')
    return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  return true;
}

}  // namespace

std::string Cluster::text() const { return fmt::format("{}x{}x{}", nodes, per_node, gpu.name); }

std::vector<std::string> gpu_names() {
  std::vector<std::string> out;
  for (const auto& g : gpus()) out.push_back(g.name);
  return out;
}

Result<Cluster> parse_cluster(std::string_view text, const Gpu* here) {
  Cluster out;
  std::string_view rest = text;
  if (!take(rest, out.nodes) || !take(rest, out.per_node) || rest.empty())
    return fail(KINORA_ERROR_INVALID, "cluster '{}': expected NODESxGPUSxNAME, such as 8x8xH100", text);
  if (same(rest, "here")) {
    if (!here)
      return fail(KINORA_ERROR_INVALID,
                  "cluster '{}': this machine is not measured; run kinora plan --calibrate", text);
    out.gpu = *here;
    return out;
  }
  for (const auto& g : gpus())
    if (same(rest, g.name)) {
      out.gpu = g;
      return out;
    }
  auto names = gpu_names();
  names.emplace_back("here");
  return fail(KINORA_ERROR_INVALID, "cluster '{}': unknown GPU '{}'{}", text, rest,
              did_you_mean_or_list(rest, names, "there are"));
}

}  // namespace kinora::core::plan
