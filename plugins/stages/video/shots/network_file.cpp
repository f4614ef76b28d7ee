#include "shots/network_file.hpp"

#include <algorithm>
#include <vector>

#include "kinora/error.hpp"
#include "kinora/io.hpp"
#include "media/sample_media.hpp"

namespace kinora::video {
namespace {

std::string weights_of(const std::string& uri) {
  return uri.empty() ? "asset:transnetv2/transnetv2.safetensors" : uri;
}

Reader open_weights(const std::string& uri) {
  try {
    return Reader(uri);
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_NOT_FOUND) throw;
    throw Error(KINORA_ERROR_NOT_FOUND,
                std::string(e.what()) +
                    ". These are the weights of TransNet V2, 30 MB: docs/operate.md says how to get them; "
                    "without them name other detectors, such as [\"adaptive\", \"threshold\"]");
  }
}

std::vector<uint8_t> read_all(const std::string& uri) {
  Reader reader = open_weights(uri);
  const auto size = static_cast<uint64_t>(reader.size());
  if (size > transnetv2::kLargestWeights)
    throw MediaError(uri + ": too large for the weights of TransNet V2");
  std::vector<uint8_t> bytes(size);
  for (uint64_t done = 0; done < size;) {
    const auto n = static_cast<uint64_t>(reader.read(done, bytes.data() + done, size - done));
    if (n == 0) throw MediaError(uri + ": ends early; copy it again");
    done += n;
  }
  return bytes;
}

}  // namespace

bool needs_network(const ShotsPlan& plan) {
  return std::any_of(plan.detectors.begin(), plan.detectors.end(),
                     [](const DetectorOptions& d) { return d.name == "transnetv2"; });
}

void check_network(const ShotsPlan& plan) {
  if (needs_network(plan)) open_weights(weights_of(plan.weights));
}

void load_network(ShotsPlan& plan) {
  if (!needs_network(plan)) return;
  const auto network = read_network(plan.weights);
  for (DetectorOptions& detector : plan.detectors)
    if (detector.name == "transnetv2") detector.network = network;
}

std::shared_ptr<const transnetv2::Network> read_network(const std::string& uri) {
  const std::string source = weights_of(uri);
  return media_call([&] {
    return std::make_shared<const transnetv2::Network>(transnetv2::parse_weights(read_all(source), source),
                                                       source);
  });
}

}  // namespace kinora::video
