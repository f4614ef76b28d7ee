#include "apps/kinora/version.hpp"

#include <boost/dll/shared_library.hpp>

#include "core/build_info.hpp"
#include "kinora/abi/base.h"

namespace kinora {
namespace {

// The program does not link FFmpeg, so this asks the library that the video plugin will load.
std::string ffmpeg_version() {
  std::error_code error;
  boost::dll::shared_library library(
      "libavutil.so." KINORA_AVUTIL_MAJOR,
      boost::dll::load_mode::rtld_lazy | boost::dll::load_mode::search_system_folders, error);
  if (error || !library.has("av_version_info")) return "not found (libavutil.so." KINORA_AVUTIL_MAJOR ")";
  return library.get<const char*()>("av_version_info")();
}

}  // namespace

std::string version_text() {
  return std::string("kinora ") + KINORA_VERSION + "\nbuild    " + KINORA_BUILD + "\nabi      " +
         std::to_string(KINORA_ABI_MAJOR) + "." + std::to_string(KINORA_ABI_MINOR) + "\nlibtorch " +
         KINORA_TORCH_VERSION + "\nffmpeg   " + ffmpeg_version() + "\n";
}

}  // namespace kinora
