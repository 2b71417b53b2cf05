#include "RealizarChatComponent.h"

#include "Engine/TextureRenderTarget2D.h"
#include "TextureResource.h"

DEFINE_LOG_CATEGORY_STATIC(LogRealizar, Log, All);

static FString ToString(std::string_view Text)
{
    const FUTF8ToTCHAR Converted(Text.data(), static_cast<int32>(Text.size()));
    FString Made;
    Made.AppendChars(Converted.Get(), Converted.Length());
    return Made;
}

static std::string FromString(const FString& Text)
{
    const FTCHARToUTF8 Converted(*Text);
    return std::string(reinterpret_cast<const char*>(Converted.Get()), static_cast<size_t>(Converted.Length()));
}

/** False, and a line in the log, for what failed. */
template <class T> static bool Succeeded(const realizar::Result<T>& Result)
{
    if (!Result) UE_LOG(LogRealizar, Error, TEXT("%s"), *ToString(Result.error().message));
    return static_cast<bool>(Result);
}

/** False, and a line in the log, for a property that is out of range. */
static bool IsAtLeast(int32 Value, int32 Least, const char* Name)
{
    if (Value >= Least) return true;
    const std::string Why = std::string(Name) + " is " + std::to_string(Value) + "; it must be at least " + std::to_string(Least);
    UE_LOG(LogRealizar, Error, TEXT("%s"), *ToString(Why));
    return false;
}

/** A question about a picture as a message in JSON. */
static std::string MessageOf(const FString& Question)
{
    std::string Made = R"({"role": "user", "content": [{"type": "image", "media": 0}, {"type": "text", "text": )";
    realizar::detail::quote(Made, FromString(Question));
    return Made + "}]}";
}

URealizarChatComponent::URealizarChatComponent()
{
    PrimaryComponentTick.bCanEverTick = true;
}

bool URealizarChatComponent::Load()
{
    if (!IsAtLeast(Threads, 0, "Threads") || !IsAtLeast(Device, 0, "Device")) return false;
    auto RuntimeParams = realizar::params<rz_runtime_params>();
    RuntimeParams.threads = static_cast<uint32>(Threads);
    auto Runtime = realizar::Runtime::make(RuntimeParams);
    if (!Succeeded(Runtime)) return false;
    auto ModelParams = realizar::params<rz_model_params>();
    ModelParams.device = static_cast<uint32>(Device);
    ModelParams.runtime = Runtime->get(); // the model keeps it alive
    auto Loaded = realizar::Model::load(FromString(ModelPath), ModelParams);
    if (!Succeeded(Loaded)) return false;
    auto Params = realizar::params<rz_conversation_params>();
    Params.overflow = RZ_OVERFLOW_FORGET;
    auto Made = realizar::Conversation::make(*Loaded, Params);
    if (!Succeeded(Made)) return false;
    Schema.reset(); // it would keep the other model
    Encoder.reset();
    Conversation.emplace(std::move(*Made));
    Model.emplace(std::move(*Loaded));
    End("another model was loaded");
    return Begin();
}

bool URealizarChatComponent::Begin()
{
    if (!Interrupt("a new conversation was begun") || !Succeeded(Conversation->try_rewind(0))) return false;
    return SystemMessage.IsEmpty() || Succeeded(Conversation->try_add({"system", FromString(SystemMessage)}));
}

bool URealizarChatComponent::SetSchema(const FString& Json)
{
    if (!Model)
    {
        UE_LOG(LogRealizar, Error, TEXT("%s"), TEXT("no model is loaded"));
        return false;
    }
    if (Json.IsEmpty())
    {
        Schema.reset();
        return true;
    }
    auto Made = realizar::Grammar::make(*Model, RZ_GRAMMAR_JSON_SCHEMA, FromString(Json));
    if (!Succeeded(Made)) return false;
    Schema.emplace(std::move(*Made));
    return true;
}

bool URealizarChatComponent::Ask(const FString& Question)
{
    if (!AreInRange() || !Interrupt("another question was asked")) return false;
    if (!Succeeded(Conversation->try_add({"user", FromString(Question)}))) return false;
    bAnswering = Answer();
    return bAnswering;
}

bool URealizarChatComponent::LoadEncoder(const FString& Path)
{
    if (!Model)
    {
        UE_LOG(LogRealizar, Error, TEXT("%s"), TEXT("no model is loaded"));
        return false;
    }
    auto Params = realizar::params<rz_encoder_params>();
    Params.flags = RZ_ENCODER_IMAGE;
    auto Made = realizar::Encoder::make(*Model, FromString(Path).c_str(), Params);
    if (!Succeeded(Made)) return false;
    Encoder.emplace(std::move(*Made));
    return true;
}

bool URealizarChatComponent::AskAboutTarget(const FString& Question, UTextureRenderTarget2D* Target)
{
    TArray<FColor> Pixels;
    FTextureRenderTargetResource* const Resource = Target ? Target->GameThread_GetRenderTargetResource() : nullptr;
    if (!Resource || !Resource->ReadPixels(Pixels))
    {
        UE_LOG(LogRealizar, Error, TEXT("%s"), TEXT("the render target has no pixels"));
        return false;
    }
    return AskAbout(Question, Pixels, Target->SizeX, Target->SizeY);
}

bool URealizarChatComponent::AreInRange() const
{
    return IsAtLeast(Budget, 1, "Budget") && IsAtLeast(MaxTokens, 0, "MaxTokens");
}

bool URealizarChatComponent::AskAbout(const FString& Question, const TArray<FColor>& Pixels, int32 Width, int32 Height)
{
    if (!AreInRange() || !Interrupt("another question was asked")) return false;
    const bool bFits = Width > 0 && Height > 0 && Pixels.Num() / Width == Height && Pixels.Num() % Width == 0;
    if (!Encoder || !bFits)
    {
        const char* const Why = Encoder ? "the pixels are not those of a picture of this size" : "no encoder of pictures is loaded";
        UE_LOG(LogRealizar, Error, TEXT("%s"), *ToString(Why));
        return false;
    }
    auto Given = realizar::params<rz_pixels>();
    Given.format = RZ_PIXELS_BGRA8; // the order of FColor in memory
    Given.width = static_cast<uint32>(Width);
    Given.height = static_cast<uint32>(Height);
    Given.data = Pixels.GetData();
    auto Params = realizar::params<rz_media_params>();
    Params.flags = RZ_ENCODE_STEPS;
    auto Made = Encoder->try_encode(Given, Params);
    if (!Succeeded(Made)) return false;
    Picture.emplace(std::move(*Made));
    Message = MessageOf(Question);
    bAnswering = true;
    return true;
}

bool URealizarChatComponent::Answer()
{
    auto Sampling = realizar::params<rz_sampler_params>();
    Sampling.temperature = Temperature;
    Sampling.top_p = 0.95f;
    Sampling.seed = Turn;
    auto Params = realizar::params<rz_reply_params>();
    Params.flags = RZ_REPLY_KEEP;
    Params.max_tokens = static_cast<uint32>(FMath::Max(MaxTokens, 0));
    Params.sampler = Temperature < 0 ? nullptr : &Sampling;
    Params.compiled_grammar = Schema ? Schema->get() : nullptr;
    Params.reasoning = ReasoningTokens == 0 ? RZ_REASONING_OFF : RZ_REASONING_MODEL;
    Params.reasoning_tokens = static_cast<uint32>(FMath::Max(ReasoningTokens, 0));
    const auto Info = Conversation->try_info();
    if (!Succeeded(Info)) return false;
    MessagesBefore = Info->n_messages - 1;
    const bool bBegun = Succeeded(Conversation->try_reply(Params));
    if (!bBegun) (void)Conversation->try_rewind(MessagesBefore);
    return bBegun;
}

void URealizarChatComponent::Stop()
{
    End("stopped");
}

bool URealizarChatComponent::Interrupt(const char* Why)
{
    End(Why);
    if (Conversation && !bAnswering) return true; // a receiver of OnEnded may have asked
    UE_LOG(LogRealizar, Error, TEXT("%s"), *ToString(Conversation ? Why : "no model is loaded"));
    return false;
}

void URealizarChatComponent::End(const char* Why)
{
    if (!bAnswering) return;
    bAnswering = false;
    Turn++;
    // What there is of it becomes a message with the next question. Where there is nothing the question goes too,
    // because templates want questions and answers in turn.
    const auto Info = Conversation->try_info();
    const bool bEncoding = std::exchange(Picture, std::nullopt).has_value(); // its question is no message yet
    if (!bEncoding && Info && (Info->n_tokens == 0 || Info->end_reason == RZ_END_FAILED)) (void)Conversation->try_rewind(MessagesBefore);
    OnEnded.Broadcast(ToString(Why));
}

void URealizarChatComponent::TickComponent(float DeltaTime, ELevelTick TickType, FActorComponentTickFunction* Function)
{
    Super::TickComponent(DeltaTime, TickType, Function);
    if (!bAnswering) return;
    if (Picture)
    {
        const auto Made = Picture->try_step(static_cast<uint64>(FMath::Max(Budget, 1)));
        if (!Made) return End(Made.error().message);
        if (*Made != RZ_DONE) return;
        const auto Added = Conversation->try_add_json(Message, {&*Picture});
        if (!Added) return End(Added.error().message);
        Picture.reset();
        if (!Answer()) End("the question cannot be answered");
        return;
    }
    const uint64 Before = Turn;
    std::string Thought, Said;
    const auto Stepped = Conversation->try_step(std::chrono::microseconds(Budget));
    const auto Read = Conversation->try_parts([&](uint32 Kind, uint32, uint32, std::string_view Text) {
        if (Kind == RZ_CHAT_EVENT_REASONING) Thought += Text;
        if (Kind == RZ_CHAT_EVENT_CONTENT) Said += Text;
    });
    if (!Thought.empty()) OnReasoning.Broadcast(ToString(Thought));
    if (!Said.empty() && Turn == Before) OnText.Broadcast(ToString(Said));
    if (Turn != Before) return; // a receiver has stopped it, or asked again
    if (!Stepped) End(Stepped.error().message);
    else if (!Read) End(Read.error().message);
    else if (*Stepped == RZ_DONE) End("");
}

void URealizarChatComponent::BeginPlay()
{
    Super::BeginPlay();
    if (!ModelPath.IsEmpty()) Load();
}

void URealizarChatComponent::EndPlay(const EEndPlayReason::Type Reason)
{
    bAnswering = false;
    Turn++; // a tick may be under way, whose receiver has ended the play
    Picture.reset();
    Schema.reset();
    Encoder.reset();
    Conversation.reset();
    Model.reset();
    Super::EndPlay(Reason);
}
