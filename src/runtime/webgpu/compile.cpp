// WGSL to pipelines. Parsing happens in the calling thread, inside the creation of the module; the
// translation and the driver's compiler, which take most of the time, run on Dawn's threads. So
// each pipeline is started as soon as its module is parsed, and the next one is parsed meanwhile.
#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>
#include <thread>

#include "runtime/webgpu/context.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {
namespace {

/// A compiler message with its place, copied out of Dawn's callback.
struct Complaint {
  std::string text;
  std::uint64_t line = 0;
  std::uint64_t column = 0;
  std::uint64_t length = 0;
};

struct PipelineOutcome {
  dawn::RequestStatus status{};
  dawn::ComputePipeline pipeline = nullptr;
  std::string message;
};

/// One source that is not compiled yet.
struct Job {
  const ShaderSource* source = nullptr;
  std::string key;
  dawn::BindGroupLayout layout = nullptr;
  std::shared_ptr<Pending<PipelineOutcome>> pending;  // null until started
  std::string error;
  std::shared_ptr<PipelineState> result;
};

std::string key_of(const ShaderSource& source) {
  std::string key = source.entry;
  key += '\0';
  for (const Access access : source.bindings)
    key += static_cast<char>('0' + static_cast<int>(access));
  key += '\0';
  return key += source.wgsl;
}

/// The line a message points at, its neighbours, and a mark under the place:
///     11 | let a = b[i];
///   > 12 | let c: i32 = 1.5;
///        |              ^^^
std::string excerpt(const std::string& wgsl, const Complaint& complaint) {
  constexpr std::uint64_t kNeighbours = 2;
  std::istringstream lines(wgsl);
  std::ostringstream out;
  std::string line;
  for (std::uint64_t number = 1; std::getline(lines, line); ++number) {
    if (number + kNeighbours < complaint.line) continue;
    if (number > complaint.line + kNeighbours) break;
    std::string digits = std::to_string(number);
    digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, ' ');
    const bool here = number == complaint.line;
    out << "\n  " << (here ? '>' : ' ') << digits << " | " << line;
    if (here && complaint.column > 0) {
      const std::uint64_t room =
          line.size() + 1 - std::min<std::uint64_t>(line.size(), complaint.column - 1);
      out << "\n  " << std::string(digits.size() + 1, ' ') << " | "
          << std::string(complaint.column - 1, ' ')
          << std::string(std::clamp<std::uint64_t>(complaint.length, 1, room), '^');
    }
  }
  return out.str();
}

std::string describe(const ShaderSource& source, const Complaint& complaint) {
  const std::string text =
      "webgpu: the shader \"" + source.label + "\" does not compile: " + tidy(complaint.text) + ".";
  if (complaint.line == 0) return text;
  return text + "\n  at line " + std::to_string(complaint.line) + ", column " +
         std::to_string(complaint.column) + " of its WGSL:" + excerpt(source.wgsl, complaint);
}

/// The first error of a module. It must be asked for before a pipeline is made of it: with
/// validation off, Dawn would go on with the broken module and crash.
std::optional<Complaint> first_error(Context& context, dawn::ShaderModule module) {
  const auto pending = std::make_shared<Pending<std::optional<Complaint>>>();
  dawn::CallbackInfo<dawn::CompilationCallback> callback;
  callback.callback = [](dawn::RequestStatus status, const dawn::CompilationInfo* info, void* user,
                         void*) {
    std::optional<Complaint> found;
    if (status != dawn::RequestStatus::Success) found = Complaint{"the device was lost", 0, 0, 0};
    for (std::size_t i = 0; !found && info != nullptr && i < info->message_count; ++i) {
      const dawn::CompilationMessage& message = info->messages[i];
      if (message.type != dawn::MessageType::Error) continue;
      found = Complaint{std::string(message.message.view()), message.line, message.column,
                        message.length};
    }
    Pending<std::optional<Complaint>>::finish(user, std::move(found));
  };
  callback.user1 = Pending<std::optional<Complaint>>::share(pending);
  context.api.shader_module_get_compilation_info(module, callback);
  context.wait_until([&] { return pending->done; });
  return pending->done ? pending->value : Complaint{"the device was lost", 0, 0, 0};
}

/// The error that Dawn reports beside the compilation's messages, so that it does not surface
/// later.
std::string pop_error(Context& context) {
  const auto pending = std::make_shared<Pending<std::string>>();
  dawn::CallbackInfo<dawn::ErrorScopeCallback> callback;
  callback.callback = [](dawn::RequestStatus, dawn::ErrorType type, dawn::StringView message,
                         void* user, void*) {
    Pending<std::string>::finish(
        user, type == dawn::ErrorType::None ? std::string() : std::string(message.view()));
  };
  callback.user1 = Pending<std::string>::share(pending);
  context.api.device_pop_error_scope(context.device, callback);
  context.wait_until([&] { return pending->done; });
  return pending->value;
}

bool has_function(const std::string& wgsl, const std::string& name) {
  const std::string declaration = "fn " + name;
  for (std::size_t at = 0; (at = wgsl.find(declaration, at)) != std::string::npos; ++at) {
    const std::size_t end = at + declaration.size();
    const bool goes_on =
        end < wgsl.size() &&
        (wgsl[end] == '_' || std::isalnum(static_cast<unsigned char>(wgsl[end])) != 0);
    if (!goes_on) return true;
  }
  return false;
}

/// What Dawn would stumble over, rather than report, with validation off. Empty if all is well.
std::string complaint_before_dawn(const Context& context, const ShaderSource& source) {
  if (!has_function(source.wgsl, source.entry)) {
    return "webgpu: the shader \"" + source.label + "\" has no function \"" + source.entry + "\".";
  }
  const auto uniforms = static_cast<std::uint64_t>(
      std::count(source.bindings.begin(), source.bindings.end(), Access::Uniform));
  const std::uint64_t storage = source.bindings.size() - uniforms;
  const auto too_many = [&](std::uint64_t count, const char* kind, std::uint64_t most) {
    return "webgpu: the shader \"" + source.label + "\" binds " + std::to_string(count) + " " +
           kind + " buffers; the device allows " + std::to_string(most) + ".";
  };
  if (storage > context.limits.storage_buffers_per_stage) {
    return too_many(storage, "storage", context.limits.storage_buffers_per_stage);
  }
  if (uniforms > context.limits.uniform_buffers_per_stage) {
    return too_many(uniforms, "uniform", context.limits.uniform_buffers_per_stage);
  }
  return {};
}

/// Parses one source and starts its pipeline; sets the job's error if it cannot.
void start(Context& context, Job& job) {
  const ShaderSource& source = *job.source;
  job.error = complaint_before_dawn(context, source);
  if (!job.error.empty()) return;
  const std::lock_guard lock(context.mutex);
  const Layout& layout = context.layout_for(source.bindings);
  job.layout = layout.bind_group;

  context.api.device_push_error_scope(context.device, dawn::ErrorFilter::Validation);
  dawn::ShaderSourceWgsl wgsl;
  wgsl.code = std::string_view(source.wgsl);
  dawn::ShaderModuleDescriptor module_descriptor;
  module_descriptor.next = &wgsl.chain;
  module_descriptor.label = std::string_view(source.label);
  const dawn::ShaderModule module =
      context.api.device_create_shader_module(context.device, &module_descriptor);
  std::optional<Complaint> complaint = first_error(context, module);
  std::string reported = pop_error(context);
  if (!complaint && !reported.empty()) complaint = Complaint{std::move(reported), 0, 0, 0};

  if (complaint) {
    job.error = describe(source, *complaint);
  } else {
    dawn::ComputePipelineDescriptor descriptor;
    descriptor.label = std::string_view(source.label);
    descriptor.layout = layout.pipeline;
    descriptor.module = module;
    descriptor.entry_point = std::string_view(source.entry);
    job.pending = std::make_shared<Pending<PipelineOutcome>>();
    dawn::CallbackInfo<dawn::PipelineCallback> callback;
    callback.callback = [](dawn::RequestStatus status, dawn::ComputePipeline pipeline,
                           dawn::StringView message, void* user, void*) {
      Pending<PipelineOutcome>::finish(user, {status, pipeline, std::string(message.view())});
    };
    callback.user1 = Pending<PipelineOutcome>::share(job.pending);
    context.api.device_create_compute_pipeline_async(context.device, &descriptor, callback);
  }
  context.api.shader_module_release(module);
}

/// Takes over what Dawn has made of a job.
void finish(const std::shared_ptr<Context>& context, Job& job) {
  if (job.pending == nullptr) return;
  const std::lock_guard lock(context->mutex);
  const PipelineOutcome& outcome = job.pending->value;
  if (outcome.status == dawn::RequestStatus::Success && outcome.pipeline != nullptr) {
    job.result =
        std::make_shared<PipelineState>(context, outcome.pipeline, *job.source, job.layout);
    context->pipelines[job.key] = job.result;
    ++context->counters.pipelines_compiled;
  } else {
    job.error = describe(*job.source, {outcome.message, 0, 0, 0});
  }
}

}  // namespace

std::vector<std::shared_ptr<PipelineState>> compile_pipelines(
    const std::shared_ptr<Context>& context, std::span<const ShaderSource> sources) {
  context->reports.check();
  std::vector<std::shared_ptr<PipelineState>> results(sources.size());
  std::vector<Job> jobs;
  std::vector<std::size_t> job_of(sources.size());
  {
    const std::lock_guard lock(context->mutex);
    std::erase_if(context->pipelines, [](const auto& entry) { return entry.second.expired(); });
    std::unordered_map<std::string, std::size_t> new_jobs;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      std::string key = key_of(sources[i]);
      if (const auto known = context->pipelines.find(key); known != context->pipelines.end()) {
        results[i] = known->second.lock();
      }
      if (results[i] != nullptr) {
        ++context->counters.pipelines_shared;
        continue;
      }
      const auto [entry, is_new] = new_jobs.try_emplace(key, jobs.size());
      job_of[i] = entry->second;
      if (is_new) {
        Job job;
        job.source = &sources[i];
        job.key = std::move(key);
        jobs.push_back(std::move(job));
      } else {
        ++context->counters.pipelines_shared;
      }
    }
  }

  // Dawn gives every pipeline a thread of its own, so no more are started than there are cores.
  const std::size_t at_once = std::max(2u, std::thread::hardware_concurrency());
  const auto running = [&] {
    return static_cast<std::size_t>(std::count_if(jobs.begin(), jobs.end(), [](const Job& job) {
      return job.pending != nullptr && !job.pending->done;
    }));
  };
  bool failed = false;
  for (Job& job : jobs) {
    if (failed || context->reports.is_lost()) break;
    context->wait_until([&] { return running() < at_once; }, Backoff::Manner::Patient);
    start(*context, job);
    failed = !job.error.empty();
  }
  context->wait_until([&] { return running() == 0; }, Backoff::Manner::Patient);
  for (Job& job : jobs) finish(context, job);

  if (context->reports.is_lost()) throw DeviceError(context->reports.loss());
  for (const Job& job : jobs) {
    if (!job.error.empty()) throw DeviceError(job.error);
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (results[i] == nullptr) results[i] = jobs[job_of[i]].result;
  }
  return results;
}

}  // namespace tensorgrad::webgpu
