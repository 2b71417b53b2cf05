#pragma once

#include "Components/ActorComponent.h"
#include "CoreMinimal.h"

#include <realizar.hpp>

#include "RealizarChatComponent.generated.h"

DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(FRealizarText, const FString&, Piece);
DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(FRealizarEnded, const FString&, Error);

/** Answers a conversation within the time that a frame can spare: an answer is worked on in each tick for a budget, and comes as an
 *  event for each piece of text. */
UCLASS(ClassGroup = (AI), meta = (BlueprintSpawnableComponent))
class REALIZAR_API URealizarChatComponent : public UActorComponent
{
    GENERATED_BODY()

public:
    URealizarChatComponent();

    /** A .gguf file, or a folder with config.json. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar")
    FString ModelPath;

    /** Threads that compute, the game's own among them; 0: one a processor core. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "0"))
    int32 Threads = 1;

    /** Microseconds of a frame. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "1"))
    int32 Budget = 2000;

    /** Tokens of an answer at most; 0: as many as there is room for. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "0"))
    int32 MaxTokens = 256;

    /** 0: always the most likely token. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "0"))
    float Temperature = 0.7f;

    /** Told each piece of an answer, whole characters. */
    UPROPERTY(BlueprintAssignable, Category = "Realizar")
    FRealizarText OnText;

    /** Told the end of an answer: empty, or why it broke off. */
    UPROPERTY(BlueprintAssignable, Category = "Realizar")
    FRealizarEnded OnEnded;

    /** Loads the model, as long as reading its file takes, and begins a new conversation. BeginPlay does so where there is a path.
     *  False, and a line in the log, where it fails. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool Load();

    /** Adds a question to the conversation; the answer comes in the ticks that follow. One that still comes ends. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool Ask(const FString& Question);

    /** Ends the answer; what there is of it stays in the conversation. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    void Stop();

    UFUNCTION(BlueprintPure, Category = "Realizar")
    bool IsAnswering() const { return Job.has_value(); }

    virtual void BeginPlay() override;
    virtual void EndPlay(const EEndPlayReason::Type Reason) override;
    virtual void TickComponent(float DeltaTime, ELevelTick TickType, FActorComponentTickFunction* Function) override;

private:
    bool Start();
    void End(const char* Error);

    std::optional<realizar::Model> Model;
    std::optional<realizar::Cache> Cache;
    std::optional<realizar::Job> Job;
    std::vector<realizar::Message> Messages;
    std::string Answer;
    /** Number of the answer, by which a tick notices that an event has begun another one. */
    uint64 Turn = 0;
};
