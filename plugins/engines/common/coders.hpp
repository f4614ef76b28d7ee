// The hardware video decoders and encoders of NVIDIA's GPUs. The driver counts them only for a process that has opened
// the card, so they are known by the model.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kinora::engines {

struct Coders {
  double nvdec = 1, nvenc = 1;
};

// Of one GPU of this model, such as "NVIDIA H200" or "A100-SXM4-80GB"; one of each for a model that is not known.
Coders coders_of(std::string_view model);

// The models of the GPUs that this process can open and, where CUDA_VISIBLE_DEVICES names some, may use: as many as it
// names, in the driver's order; "" where the driver does not say it. root: the folder that has dev and proc.
std::vector<std::string> gpus_seen(const std::string& root = "");

}  // namespace kinora::engines
