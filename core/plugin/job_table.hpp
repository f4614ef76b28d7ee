// The table of a component of kind "job". It holds a C++ object of this one build of Kinora (tier "host").
#pragma once
#include <cstdint>

namespace kinora::core {

class JobType;

inline constexpr const char* kJobInterface = "kinora.job/host";

struct kinora_job {
  uint32_t struct_size;
  uint32_t reserved;
  const JobType* (*type)();  // [any-thread] constant, lives as long as the library
};

}  // namespace kinora::core
