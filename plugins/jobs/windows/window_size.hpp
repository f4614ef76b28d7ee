// The sizes of the windows that an encode job takes from clips of different shapes and lengths.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kinora::core {

struct EncodeOptions;

struct WindowSize {
  int64_t frames, height, width;  // of the frames that are taken; pixels
  bool operator==(const WindowSize&) const = default;
};

// "9x48x64": frames, height, width. Throws Error(KINORA_ERROR_INVALID).
WindowSize window_size(const std::string& text);
// frames x height x width of the options, followed by those of `sizes`.
std::vector<WindowSize> window_sizes(const EncodeOptions& options);

// Which size a clip gets: of those with no more frames than the clip has, the ones whose shape is nearest to
// its own; of these the largest that the clip fills, or the smallest if it fills none. Nothing for a clip that
// is shorter than every size.
std::optional<size_t> choose_size(const std::vector<WindowSize>& sizes, const WindowSize& clip);

}  // namespace kinora::core
