// The process's surroundings: HEDDLE_* variables, and the record of kernel, CPU and limits that goes into a result file.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace heddle::bench {

// One line on stderr for each HEDDLE_* variable nobody reads: a typing error there would otherwise be silence.
void warn_about_unknown_variables();

// Nothing where it is unset or empty.
std::optional<std::string> variable(const char* name);

// kernel, cpu_model, cgroup_quota (CPUs, null without one), virtual_machine, compiler, build, started, warnings.
nlohmann::ordered_json environment_record();

// "Linux 6.18.44", "AMD EPYC 9R14"; empty where the system does not say.
std::string kernel_name();
std::string cpu_model();
bool under_hypervisor();

}  // namespace heddle::bench
