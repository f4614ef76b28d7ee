// Instances of stages on this machine: in this process, and in processes of their own.
#pragma once
#include <string>
#include <vector>

#include "kinora/abi/workers.h"
#include "plugins/engines/common/instance.hpp"

namespace kinora::engines {

// Which stages run in their own processes, and the limits of these.
struct Isolation {
  std::vector<std::string> which{"none"};       // "auto", "none", "all", or names of stages
  double timeout = 0;                           // seconds without a sign of life; 0: none
  double limit = 0;                             // seconds that a sample may take; 0: any
  uint64_t memory = 0;                          // bytes a process may hold; 0: any
  uint64_t together = 0;                        // bytes all processes may hold together; 0: any
  const kinora_workers_api* workers = nullptr;  // null: the host does not start processes

  // Throws Error if processes are requested and the host has none, or if a name is not a stage.
  void check(const kinora_pipeline& pipeline) const;
  // The stage's needs and its first instance. Throws Error that names the stage.
  FirstInstance first(const kinora_stage_spec& spec) const;
  // A new instance, in a process of its own or here. Throws Error that names the stage.
  std::unique_ptr<Instance> make(const kinora_stage_spec& spec, bool apart) const;
  // The same for Executor::start().
  void start(const kinora_stage_spec& spec, bool apart, const Executor::Started& started) const;

 private:
  // Whether the stage may run in its own process, so that a crash of its constructor must not end this one.
  bool asks_apart(const kinora_stage_spec& spec) const;
  // The resources of an instance that is made in its own process. Throws Error that names the stage.
  kinora_resources ask(const kinora_stage_spec& spec) const;
  bool covers(const kinora_stage_spec& spec, const kinora_resources& resources) const;
};

// The host's table, or null without an error.
const kinora_workers_api* workers_of_host();

}  // namespace kinora::engines
