// The option `decoder` of stages that decode many frames: who decodes.
#pragma once
#include <string>

#include "kinora/options.hpp"
#include "media/decoder.hpp"

namespace kinora::video {

// Describes the option, a string.
template <class Options, class Member>
void describe_decoder(Describe<Options>& d, Member decoder) {
  d.option("decoder", decoder)
      .choices({"cpu", "nvdec", "auto"})
      .help(
          "video decoder; nvdec: NVIDIA's, which gives the same frames but does not report damage inside a "
          "picture; "
          "auto: nvdec, and the CPU for videos that it does not decode");
}

// The options of a Decoder for the values of a stage's options `threads` and `decoder`. The first video of
// the process that the CPU decodes because NVDEC does not is logged with the reason.
DecoderOptions decoding_options(int64_t threads, const std::string& decoder);

// For Stage::start: Error(KINORA_ERROR_UNSUPPORTED) for "nvdec" where it cannot be used.
void check_decoder(const std::string& decoder);

// Hardware decoders that a stage keeps busy.
uint32_t hardware_decoders(const std::string& decoder);

}  // namespace kinora::video
