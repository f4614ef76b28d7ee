#include "media/decoding.hpp"

#include <mutex>

#include "kinora/error.hpp"
#include "media/hardware_decoder.hpp"

namespace kinora::video {
namespace {

void log_fallback(const std::string& why) {
  static std::once_flag once;
  std::call_once(once,
                 [&] { log(Log::warn, why + "; the CPU decodes it, and others without another message"); });
}

}  // namespace

DecoderOptions decoding_options(int64_t threads, const std::string& decoder) {
  DecoderOptions out;
  out.threads = static_cast<int>(threads);
  if (decoder == "cpu") return out;
  out.hardware = &nvdec();
  out.hardware_only = decoder == "nvdec";
  out.on_fallback = log_fallback;
  return out;
}

void check_decoder(const std::string& decoder) {
  if (decoder == "nvdec" && !why_no_nvdec().empty())
    throw Error(KINORA_ERROR_UNSUPPORTED,
                why_no_nvdec() + "; set decoder = \"auto\" to decode on the CPU then, or \"cpu\"");
}

uint32_t hardware_decoders(const std::string& decoder) {
  return decoder == "nvdec" || (decoder == "auto" && why_no_nvdec().empty()) ? 1 : 0;
}

}  // namespace kinora::video
