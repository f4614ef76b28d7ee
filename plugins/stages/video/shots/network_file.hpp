// The network of the detector transnetv2, from its file.
#pragma once
#include <memory>
#include <string>

#include "shots/shot_finder.hpp"

namespace kinora::video {

// Whether one of the plan's detectors is a network.
bool needs_network(const ShotsPlan& plan);

// For a stage's constructor: Error(KINORA_ERROR_NOT_FOUND), which says how to get the weights, if the plan needs
// them and they are missing. Reads nothing.
void check_network(const ShotsPlan& plan);

// For Stage::start: reads the network if the plan needs it.
void load_network(ShotsPlan& plan);

// uri: empty for the asset. Reads the file whole, at most 1 GiB. Error(KINORA_ERROR_DATA) names the file and what is
// wrong.
std::shared_ptr<const transnetv2::Network> read_network(const std::string& uri);

}  // namespace kinora::video
