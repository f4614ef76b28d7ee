#include "plugins/jobs/windows/window_size.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/windows/encode_options.hpp"

namespace kinora::core {
namespace {

double shape(const WindowSize& s) {
  return std::log(static_cast<double>(s.width) / static_cast<double>(s.height));
}

double numbers(const WindowSize& s) {
  return static_cast<double>(s.frames) * static_cast<double>(s.height) * static_cast<double>(s.width);
}

}  // namespace

WindowSize window_size(const std::string& text) {
  WindowSize out{};
  const char *at = text.data(), *const end = at + text.size();
  for (int64_t* number : {&out.frames, &out.height, &out.width}) {
    if (number != &out.frames && (at == end || *at++ != 'x')) at = nullptr;
    const auto [next, error] =
        at ? std::from_chars(at, end, *number) : std::from_chars_result{end, std::errc::invalid_argument};
    if (error != std::errc() || *number < 1 || *number > 100000)
      raise(KINORA_ERROR_INVALID,
            "'{}' is not the size of a window; write frames, height and width as \"9x48x64\"", text);
    at = next;
  }
  if (at != end)
    raise(KINORA_ERROR_INVALID,
          "'{}' is not the size of a window; write frames, height and width as \"9x48x64\"", text);
  return out;
}

std::vector<WindowSize> window_sizes(const EncodeOptions& options) {
  std::vector<WindowSize> out{{options.frames, options.height, options.width}};
  for (const auto& text : options.sizes)
    if (const WindowSize size = window_size(text); std::find(out.begin(), out.end(), size) == out.end())
      out.push_back(size);
  return out;
}

std::optional<size_t> choose_size(const std::vector<WindowSize>& sizes, const WindowSize& clip) {
  constexpr double kSameShape = 1e-6;
  std::optional<size_t> best;
  const auto off = [&](size_t i) { return std::abs(shape(sizes[i]) - shape(clip)); };
  const auto fills = [&](size_t i) { return sizes[i].height <= clip.height && sizes[i].width <= clip.width; };
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].frames > clip.frames) continue;
    if (!best || off(i) < off(*best) - kSameShape) {
      best = i;
    } else if (off(i) < off(*best) + kSameShape) {
      const bool is_larger = numbers(sizes[i]) > numbers(sizes[*best]);
      if (fills(i) != fills(*best) ? fills(i) : is_larger == fills(i)) best = i;
    }
  }
  return best;
}

}  // namespace kinora::core
